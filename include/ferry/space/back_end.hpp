// ferry: who copies, waits and allocates off the host.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>
#include <ferry/space/memory_space.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// Memory that a back end has allocated: movable, gives its address, and releases itself on any thread, at any time.
template <class M>
concept owned_memory = std::move_constructible<M> && requires(M const& m) {
    { m.data() } -> std::convertible_to<void*>;
};

/// The verbs that an exchange needs off the host (D9a). Not required: that it owns anything, or that it can reach more
/// than one device.
///
/// - `reaches(device)`: whether it can allocate and copy there.
/// - `allocate(device, bytes, on)`: memory of at least 64-byte alignment for work queued on `on`.
/// - `copy(plan, dst, to, src, from, on)`: queues the copy on `on`, or finishes it before it returns when `on` names no
///   stream. Memory of type cpu that it reads may be reused when it returns; what it writes is there once `on` got so
///   far. It may return a bool, and then true means that all of it has run: nobody waits for it. When it throws,
///   nothing was queued.
/// - `order(from, to)`: what is queued on `to` later runs after all that is queued on `from` now. Does not block the
/// host.
/// - `wait(on)`: blocks the host until all that is queued on `on` has run; never waits for a whole device. When it
/// throws,
///   nothing that was queued there runs any more: what a copy would have written may be freed.
template <class B>
concept back_end =
    requires(B& b, ferry::device d, std::size_t n, stream_token on, copy_plan const& plan, void* dst, void const* src) {
        { b.reaches(d) } -> std::same_as<bool>;
        { b.allocate(d, n, on) } -> owned_memory;
        b.copy(plan, dst, d, src, d, on);
        b.order(on, on);
        b.wait(on);
    };

/// A back end that can tell when what it has queued has run: `mark(on)` gives an object whose end waits until all has
/// run that is queued on `on` by now, on any thread, at any time, also after the end of the SDK. An exchange gives one
/// to each copy that it queues, so that a copy which is dropped before it was made frees nothing that is still written
/// or read. A mark that was made of nothing waits for nothing. Without one that is the consumer's debt alone (R50),
/// also of a consumer that never took the copy.
template <class B>
concept marking_back_end = back_end<B> && requires(B& b, stream_token on) {
    { b.mark(on) } -> std::movable;
    requires std::default_initializable<decltype(b.mark(on))>;
};

/// The back end of those who need none: ordinary host memory and nothing else. Copies of host-readable memory are the
/// caller's thread at work; no streams exist. Stateless; thread-safe.
struct host_back_end {
    [[nodiscard]] constexpr bool reaches(device d) const noexcept { return d.type == device_type::cpu; }
    [[nodiscard]] buffer<host_space> allocate(device, std::size_t bytes, stream_token) const {
        return buffer<host_space>{bytes};
    }
    bool copy(copy_plan const& plan, void* dst, device, void const* src, device, stream_token) const noexcept {
        copy_on_host(plan, dst, src);
        return true;
    }
    void order(stream_token, stream_token) const noexcept {}
    void wait(stream_token) const noexcept {}
};

/// What exchanges use when no back end is passed.
inline constexpr host_back_end host_only{};

namespace detail {

/// The base of a back end that changes some verbs of another one: it calls the back end underneath for each verb, and
/// has a verb that is optional exactly when that one has it. Borrows the back end, and is as thread-safe.
template <back_end BackEnd>
class forwarding {
   public:
    constexpr explicit forwarding(BackEnd& underneath) noexcept : underneath_{&underneath} {}

    [[nodiscard]] bool reaches(device d) const { return underneath_->reaches(d); }
    [[nodiscard]] auto allocate(device d, std::size_t bytes, stream_token on) const {
        return underneath_->allocate(d, bytes, on);
    }
    decltype(auto) copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                        stream_token on) const {
        return underneath_->copy(plan, dst, to, src, from, on);
    }
    void order(stream_token from, stream_token to) const { underneath_->order(from, to); }
    void wait(stream_token on) const { underneath_->wait(on); }
    [[nodiscard]] auto mark(stream_token on) const
        requires marking_back_end<BackEnd>
    {
        return underneath_->mark(on);
    }
    /// The two verbs of `arrow_event_back_end`.
    void wait_for_event(void* event, device d, stream_token on) const
        requires requires(BackEnd& b) { b.wait_for_event(event, d, on); }
    {
        underneath_->wait_for_event(event, d, on);
    }
    [[nodiscard]] auto record_event(device d, stream_token on) const
        requires requires(BackEnd& b) { b.record_event(d, on); }
    {
        return underneath_->record_event(d, on);
    }

   protected:
    [[nodiscard]] constexpr BackEnd& underneath() const noexcept { return *underneath_; }

   private:
    BackEnd* underneath_;
};

}  // namespace detail

/// A back end whose results live in memory of the caller's space (D9); it copies, orders and waits by the one
/// underneath. Holds a handle to the space and borrows the back end. As thread-safe as both.
template <memory_space Space, back_end BackEnd = host_back_end const>
class allocating_from : public detail::forwarding<BackEnd> {
   public:
    constexpr explicit allocating_from(Space space, BackEnd& underneath = host_only)
        : detail::forwarding<BackEnd>{underneath}, space_{std::move(space)} {}

    /// The space's memory too, where plain host code can copy it: it takes the back end underneath to reach the rest.
    [[nodiscard]] bool reaches(device d) const {
        // mutant: space_reach
        return (is_host_accessible(d) && is_same_place(d, space_.device())) || this->underneath().reaches(d);
    }
    /// \throws error  errc::device when the result is wanted elsewhere than in the space;  what the space throws
    [[nodiscard]] buffer<Space> allocate(device d, std::size_t bytes, stream_token) const {
        if (!is_same_place(d, space_.device()))
            detail::fail(errc::device, "ferry::allocating_from",
                         message{"the result is wanted on "} << name(d.type) << ", the space has memory on "
                                                             << name(space_.device().type)
                                                             << ": request the space's device");
        return buffer<Space>{bytes, space_};
    }

   private:
    Space space_;
};

namespace detail {

/// Says which header brings the back end that is missing.
[[noreturn]] FERRY_COLD inline void fail_no_back_end(device d, char const* api, std::source_location where) {
    message text{"the passed back end does not reach "};
    text << name(d.type) << ":" << d.id;
    if (uses_cuda_streams(d.type)) text << ": include <ferry/cuda.hpp> and pass ferry::cuda::system";
    else text << ": pass a back end for it";
    fail(errc::no_backend, api, text, where);
}

/// Whether an exchange that touches `d` can do without a back end.
template <class BackEnd>
void require_reach(BackEnd& b, device d, char const* api, std::source_location where) {
    if (d.type != device_type::cpu && !b.reaches(d)) fail_no_back_end(d, api, where);
}

/// Copies. Whether the back end says that all of it has run.
template <back_end B>
bool queue_copy(B& b, copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
    if constexpr (std::same_as<decltype(b.copy(plan, dst, to, src, from, on)), bool>) {
        return b.copy(plan, dst, to, src, from, on);
    } else {
        static_cast<void>(b.copy(plan, dst, to, src, from, on));
        return false;
    }
}

struct no_mark {};
template <class B>
struct mark_of {
    using type = no_mark;
};
template <marking_back_end B>
struct mark_of<B> {
    using type = decltype(std::declval<B&>().mark(stream_token{}));
};
/// What a copy that `B` has queued keeps: declared behind the memory that the copy uses.
template <class B>
using queued_by = typename mark_of<B>::type;

/// The mark of what was just queued on `on`. When there is none to be had, all of it has run before it throws.
template <class B>
[[nodiscard]] queued_by<B> mark_queued([[maybe_unused]] B& b, [[maybe_unused]] stream_token on) {
    if constexpr (marking_back_end<B>) {
        if (!on.names_stream()) return {};
        try {
            return b.mark(on);
        } catch (...) {
            b.wait(on);
            throw;
        }
    } else {
        return {};
    }
}

/// Declared behind memory that was taken on a stream: unless all is done with it, waits for what is queued there before
/// the memory goes. Until then it may still be written by what had it before, and the next one to get it need not be
/// ordered behind that. Memory that the host reaches is not lent in the order of streams.
template <class BackEnd>
class taken_on {
   public:
    taken_on(BackEnd& b, stream_token on, device where) noexcept
        : b_{&b}, on_{is_host_accessible(where) ? stream_token{} : on} {}
    taken_on(taken_on const&) = delete;
    taken_on& operator=(taken_on const&) = delete;
    ~taken_on() { wait(); }

    void done() noexcept { on_ = {}; }
    void wait() noexcept {
        try {
            [[maybe_unused]] auto const here = mark_queued(*b_, on_);
        } catch (...) {  // has waited, or nothing is to be had of the stream
        }
        done();
    }

   private:
    BackEnd* b_;
    stream_token on_;
};

/// Copies, and blocks the host until what it wrote is there.
template <back_end B>
void copy_and_wait(B& b, copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
    if (!queue_copy(b, plan, dst, to, src, from, on) && on.names_stream()) b.wait(on);  // mutant: copy_wait
}

}  // namespace detail
}  // namespace ferry::inline v0
