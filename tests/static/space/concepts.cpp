#include <ferry/space/back_end.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/memory_space.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <type_traits>
#include <utility>

namespace {

// ---- memory_space ----
static_assert(ferry::memory_space<ferry::host_space>);
static_assert(ferry::memory_space<ferry::resource_space<std::pmr::memory_resource>>);
static_assert(!ferry::memory_space<std::pmr::memory_resource>);  // no device, no copies
static_assert(!ferry::memory_space<int>);

struct nowhere {
    void* allocate(std::size_t, std::size_t);
    void deallocate(void*, std::size_t, std::size_t);
};
static_assert(!ferry::memory_space<nowhere>);
struct space_of_ints : nowhere {
    int* allocate(std::size_t, std::size_t);
    ferry::device device() const;
};
static_assert(!ferry::memory_space<space_of_ints>);
struct unique_space : nowhere {
    unique_space(unique_space&&) = default;
    ferry::device device() const;
};
static_assert(!ferry::memory_space<unique_space>);  // deleters keep a copy
struct space : nowhere {
    ferry::device device() const;
};
static_assert(ferry::memory_space<space>);

// ---- memory_resource_like ----
static_assert(ferry::memory_resource_like<std::pmr::memory_resource>);
static_assert(ferry::memory_resource_like<std::pmr::monotonic_buffer_resource>);
static_assert(ferry::memory_resource_like<nowhere>);  // no base class required
struct unaligned {
    void* allocate(std::size_t);
    void deallocate(void*, std::size_t);
};
static_assert(!ferry::memory_resource_like<unaligned>);
static_assert(!ferry::memory_resource_like<std::allocator<int>>);
static_assert(std::same_as<decltype(ferry::resource_space{std::declval<std::pmr::memory_resource&>()}),
                           ferry::resource_space<std::pmr::memory_resource>>);
static_assert(!std::is_constructible_v<ferry::resource_space<nowhere>, nowhere>);  // it borrows: no temporaries

// ---- owned_memory ----
static_assert(ferry::owned_memory<ferry::buffer<>>);
static_assert(!ferry::owned_memory<void*>);
struct unmovable {
    void* data() const;
    unmovable(unmovable&&) = delete;
};
static_assert(!ferry::owned_memory<unmovable>);
struct by_number {
    std::size_t data() const;
};
static_assert(!ferry::owned_memory<by_number>);

// ---- buffer ----
static_assert(!std::copy_constructible<ferry::buffer<>>);
static_assert(std::is_nothrow_move_constructible_v<ferry::buffer<>> &&
              std::is_nothrow_move_assignable_v<ferry::buffer<>>);
static_assert(!std::is_convertible_v<std::size_t, ferry::buffer<>>);
static_assert(sizeof(ferry::buffer<ferry::host_space>) == 3 * sizeof(void*));  // a stateless space needs no storage

// ---- back_end ----
static_assert(ferry::back_end<ferry::host_back_end> && ferry::back_end<ferry::host_back_end const>);
static_assert(ferry::back_end<ferry::destination<ferry::host_space>>);
static_assert(ferry::back_end<ferry::destination<ferry::host_space> const>);
static_assert(!ferry::back_end<ferry::host_space> && !ferry::back_end<int>);
struct cannot_wait {
    bool reaches(ferry::device) const;
    ferry::buffer<> allocate(ferry::device, std::size_t bytes, ferry::stream_token) const {
        return ferry::buffer<>{bytes};
    }
    void copy(ferry::copy_plan const&, void*, ferry::device, void const*, ferry::device, ferry::stream_token) const {}
    void order(ferry::stream_token, ferry::stream_token) const {}
};
static_assert(!ferry::back_end<cannot_wait>);
struct can_wait : cannot_wait {
    void wait(ferry::stream_token) {}
};
static_assert(ferry::back_end<can_wait>);
static_assert(!ferry::back_end<can_wait const>);
struct hands_out_pointers : can_wait {
    void* allocate(ferry::device, std::size_t, ferry::stream_token) const;
};
static_assert(!ferry::back_end<hands_out_pointers>);  // the memory would have no owner

// ---- the operations that a back end has of the one that it changes ----
struct flies : can_wait {
    int fly() { return 0; }
};
struct marks : can_wait {
    int mark(ferry::stream_token) { return 0; }
};
struct can_fly {
    template <class B>
    static constexpr bool of = requires(B& b) { b.fly(); };
};
template <class B>
using destination = ferry::destination<ferry::host_space, B>;
static_assert(ferry::back_end<destination<can_wait>> && ferry::back_end<destination<can_wait> const>);
static_assert(!ferry::marking_back_end<destination<can_wait>> && ferry::marking_back_end<destination<marks>>);
template <class B>
using flying = ferry::detail::operations_found<can_fly, B>;
static_assert(std::same_as<flying<flies>, flies> && std::is_void_v<flying<can_wait>>);
static_assert(std::same_as<flying<destination<flies>>, flies>);
static_assert(std::same_as<flying<destination<destination<flies>> const>, flies>);
static_assert(std::is_void_v<flying<destination<can_wait>>>);

}  // namespace
