// ferry: calls to the operations of back ends, and reports of their failures.
#pragma once

#include <ferry/space/back_end.hpp>

namespace FERRY_NAMESPACE::detail {

/// Reports a missing back end; the message names the header of a back end that supports the device.
[[nodiscard]] FERRY_COLD inline bool report_no_back_end(device d, reporter r) {
    message text{"the back end does not support "};
    text << name(d.type) << ":" << d.id;
    if (uses_cuda_streams(d.type)) text << ": include <ferry/cuda.hpp> and pass ferry::cuda::system";
    else text << ": pass a back end for this device";
    return report(r, errc::no_backend, text);
}

/// Fails with errc::no_backend unless `d` is of type cpu or the back end supports it.
template <class BackEnd>
[[nodiscard]] bool check_support(BackEnd& b, device d, reporter r) {
    return d.type == device_type::cpu || b.reaches(d) || report_no_back_end(d, r);
}

/// Calls an operation of a back end. Returns false when it fails; passes its value, if any, to `take`.
template <class Call, class Take>
[[nodiscard]] bool perform(reporter r, Call call, [[maybe_unused]] Take take) {
    using outcome = decltype(call());
    if constexpr (is_result<outcome>) {
        auto got = call();
        if (!check_result(got, r)) return false;
        if constexpr (!std::is_void_v<value_of<outcome>>) take(*std::move(got));
    } else if constexpr (std::is_void_v<outcome>) {
        call();
    } else {
        take(call());
    }
    return true;
}
template <class Call>
[[nodiscard]] bool perform(reporter r, Call call) {
    return perform(r, call, [](auto&&) {});
}
#if FERRY_HAS_EXCEPTIONS
/// Calls an operation of a back end, or of an object that a back end returned. Returns its value; throws its error.
template <class Operation>
value_of<std::invoke_result_t<Operation&>> call(Operation operation) {
    if constexpr (is_result<std::invoke_result_t<Operation&>>) return operation().value();
    else return operation();
}
#endif

/// Blocks the host until the work queued on `on` has completed. Does nothing when the token identifies no stream.
template <class BackEnd>
[[nodiscard]] bool wait_for(BackEnd& b, stream_token on, reporter r) {
    return !on.names_stream() || perform(r, [&] { return b.wait(on); });
}
/// Waits for `on` after an error, so that no queued work uses memory that the caller releases. Only the first error is
/// reported, not an error of the wait.
template <class BackEnd>
void wait_after_error(BackEnd& b, stream_token on) noexcept {
    ignore_exceptions([&] {
        record ignored{"", {}};
        static_cast<void>(wait_for(b, on, ignored));
    });
}

/// Reports the error of memory that an adapter or a back end returned. A failed allocation of a buffer is an error of
/// the calling function, because the back end creates the buffer.
template <class M>
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_memory(M const& memory, reporter r) {
    if constexpr (is_result<M>)
        if (!memory && memory.error().api() == buffer_api) return report_out_of_memory(r);
    return check_result(memory, r);
}

/// Makes work queued on `to` run after the work queued on `from` (R43). Does nothing when the streams are equal, or
/// when either token identifies no stream.
template <class BackEnd>
[[nodiscard]] bool order_streams(stream_token from, stream_token to, BackEnd& b, reporter r) {
    if (from == to || !from.names_stream() || !to.names_stream()) return true;
    return perform(r, [&] { return b.order(from, to); });
}

/// A back end that can wait for an event of type E, and an event that can make a stream wait for it; see `ready_event`.
template <class B, class E>
concept has_wait_for = requires(B& b, E const& e, device d, stream_token on) { b.wait_for_event(e, d, on); };
template <class E>
struct has_waits {
    template <class B>
    static constexpr bool of = has_wait_for<B, E>;
};
template <class B, class E>
concept waits_for = !std::is_void_v<operations_found<has_waits<E>, B>>;
template <class E>
concept waits_itself = requires(E const& e, device d, stream_token on) { e.wait_for_event(d, on); };

/// Makes later work on `on` wait for an event; without a stream, the host waits.
template <class B, class E>
decltype(auto) wait_for_event(B& b, E const& e, device d, stream_token on) {
    static_assert(waits_for<B, E> || waits_itself<E>,
                  "ferry: the back end cannot wait for the event that array_traits<T>::ready_on returns: add a member "
                  "wait_for_event(ferry::device, ferry::stream_token) const to the event, or "
                  "wait_for_event(event, ferry::device, ferry::stream_token) to the back end");
    if constexpr (waits_for<B, E>) return find_operations<has_waits<E>>(b)->wait_for_event(e, d, on);
    else if constexpr (waits_itself<E>) return e.wait_for_event(d, on);
}

/// Calls `copy` of a back end. Sets `is_complete` to the returned bool, or to false when `copy` returns nothing.
template <back_end B>
[[nodiscard]] bool queue_copy(B& b, copy_plan const& plan, void* dst, device to, void const* src, device from,
                              stream_token on, bool& is_complete, reporter r) {
    is_complete = false;
    return perform(
        r, [&] { return b.copy(plan, dst, to, src, from, on); },
        [&](auto&& value) {
            if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, bool>) is_complete = value;
        });
}

struct no_mark {};
template <class B>
struct mark_of {
    using type = no_mark;
};
template <marking_back_end B>
struct mark_of<B> {
    using type = value_of<decltype(std::declval<B&>().mark(stream_token{}))>;
};
/// The mark of a copy that `B` queued. Declare it after the memory that the copy uses, so that it is destroyed first.
template <class B>
using queued_by = typename mark_of<B>::type;

/// The memory of a copy, and its source, which a stream may still read.
template <class Memory, class Source, class Mark>
struct copy_with_source {
    explicit copy_with_source(Memory&& m) : memory{std::move(m)} {}

    Memory memory;
    Source source{};
    FERRY_NO_UNIQUE_ADDRESS Mark queued{};  // last member: waits before the others are destroyed
};

/// Marks the work queued on `on`. On failure, waits for the work before returning, or before the exception propagates.
template <class B>
[[nodiscard]] bool mark_queued([[maybe_unused]] B& b, [[maybe_unused]] stream_token on,
                               [[maybe_unused]] queued_by<B>& mark, [[maybe_unused]] reporter r) {
    if constexpr (marking_back_end<B>) {
        if (!on.names_stream()) return true;
        bool const is_marked =
            on_exception([&] { return perform(r, [&] { return b.mark(on); }, [&](auto&& m) { mark = std::move(m); }); },
                         [&] { wait_after_error(b, on); });
        if (!is_marked) wait_after_error(b, on);
        return is_marked;
    } else {
        return true;
    }
}

/// Waits for a stream before memory that was allocated on it is released, unless `done()` was called. Waits only if the
/// back end has `mark`.
///
/// Declare it after the memory. Stream-ordered memory may still be in use by earlier work on its stream when it is
/// released, and the next allocation need not be ordered after that work. Host-accessible memory is not allocated in
/// stream order, so the destructor does not wait for it.
template <class BackEnd>
class stream_memory_guard {
   public:
    stream_memory_guard(BackEnd& b, stream_token on, device d) noexcept
        : b_{&b}, on_{is_host_accessible(d) ? stream_token{} : on} {}
    stream_memory_guard(stream_memory_guard const&) = delete;
    stream_memory_guard& operator=(stream_memory_guard const&) = delete;
    ~stream_memory_guard() { wait(); }

    void done() noexcept { on_ = {}; }
    void wait() noexcept {
        if (!on_.names_stream()) return;
        ignore_exceptions([&] {  // mark_queued has waited, or the stream has failed
            record ignored{"", {}};
            queued_by<BackEnd> here{};
            static_cast<void>(mark_queued(*b_, on_, here, ignored));
        });
        done();
    }

   private:
    BackEnd* b_;
    stream_token on_;
};

/// Copies, and blocks the host until the copy is complete.
template <back_end B>
[[nodiscard]] bool copy_and_wait(B& b, copy_plan const& plan, void* dst, device to, void const* src, device from,
                                 stream_token on, reporter r) {
    bool is_complete = false;
    if (!queue_copy(b, plan, dst, to, src, from, on, is_complete, r)) return false;
    if (is_complete) return true;
    return wait_for(b, on, r);
}

#if FERRY_HAS_EXCEPTIONS
template <back_end B>
bool queue_copy(B& b, copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
    bool is_complete = false;
    static_cast<void>(queue_copy(b, plan, dst, to, src, from, on, is_complete, {"ferry::copy", {}}));
    return is_complete;
}
template <class B>
[[nodiscard]] queued_by<B> mark_queued(B& b, stream_token on) {
    queued_by<B> mark{};
    static_cast<void>(mark_queued(b, on, mark, {"ferry::copy", {}}));
    return mark;
}
#endif

}  // namespace FERRY_NAMESPACE::detail
