#include <ferry/space/buffer.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <utility>

namespace {

struct counts {
    int live = 0;
    int calls = 0;
    std::size_t bytes = 0, alignment = 0;
};

struct counting_space {
    counts* seen;
    void* allocate(std::size_t bytes, std::size_t alignment) const {
        ++seen->calls;
        if (bytes > 1000) throw std::bad_alloc{};
        ++seen->live;
        seen->bytes = bytes;
        seen->alignment = alignment;
        return ::operator new(bytes, std::align_val_t{alignment});
    }
    void deallocate(void* p, std::size_t bytes, std::size_t alignment) const noexcept {
        --seen->live;
        seen->bytes -= bytes;
        seen->alignment -= alignment;
        ::operator delete(p, std::align_val_t{alignment});
    }
    [[nodiscard]] ferry::device device() const { return {ferry::device_type::ext_dev, 2}; }
};

}  // namespace

TEST_CASE("R6: a buffer deallocates with the size and alignment of its allocation") {
    counts seen;
    {
        ferry::buffer const b{100, counting_space{&seen}, 64};
        CHECK(seen.live == 1);
        CHECK(seen.bytes == 100);
        CHECK(seen.alignment == 64);
        CHECK(b.size() == 100);
        CHECK(b.device() == ferry::device{ferry::device_type::ext_dev, 2});
    }
    CHECK(seen.live == 0);
    CHECK(seen.bytes == 0);
    CHECK(seen.alignment == 0);
}

TEST_CASE("R26: a buffer of 0 bytes allocates nothing") {
    counts seen;
    ferry::buffer const b{0, counting_space{&seen}};
    CHECK(b.data() == nullptr);
    CHECK(seen.calls == 0);
}

TEST_CASE("R68: moving and assigning a buffer keeps one owner") {
    counts seen;
    {
        ferry::buffer a{10, counting_space{&seen}};
        auto* const data = a.data();
        ferry::buffer b{std::move(a)};
        CHECK(b.data() == data);
        CHECK(a.data() == nullptr);
        CHECK(a.size() == 0);
        ferry::buffer c{20, counting_space{&seen}};
        c = std::move(b);
        CHECK(c.data() == data);
        CHECK(c.size() == 10);
        auto& self = c;
        c = std::move(self);
        CHECK(c.data() == data);
        CHECK(seen.live == 2);
    }
    CHECK(seen.live == 0);
}

TEST_CASE("R59: a buffer whose allocation throws releases nothing") {
    counts seen;
    CHECK_THROWS_AS((ferry::buffer{2000, counting_space{&seen}}), std::bad_alloc);
    CHECK(seen.live == 0);
}

TEST_CASE("a buffer for which the space returns null is errc::out_of_memory") {
    struct empty_space : ferry::host_space {
        void* allocate(std::size_t, std::size_t) const { return nullptr; }
    };
    using buffer = ferry::buffer<empty_space>;
    support::both_fail(
        ferry::errc::out_of_memory, [] { buffer{8}; }, [] { return buffer::try_allocate(8); }, {"ferry::buffer"});
    CHECK(buffer::try_allocate(0));
}

TEST_CASE("try_allocate returns a buffer, or the error of a failed allocation") {
    counts seen;
    {
        auto const b = ferry::buffer<counting_space>::try_allocate(100, counting_space{&seen}, 64);
        REQUIRE(b.has_value());
        CHECK(b->size() == 100);
        CHECK(seen.alignment == 64);
        CHECK(seen.live == 1);
        auto const refused = ferry::buffer<counting_space>::try_allocate(2000, counting_space{&seen});
        CHECK(refused.error().code() == ferry::errc::out_of_memory);
    }
    CHECK(seen.live == 0);
}
