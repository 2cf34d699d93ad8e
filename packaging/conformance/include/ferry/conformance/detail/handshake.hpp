// ferry: conformance checks of stream ordering, on arrays of a simulated asynchronous device.
#pragma once

#include <ferry/conformance/detail/import.hpp>
#include <ferry/conformance/detail/pending_tensor.hpp>
#include <ferry/conformance/maker.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>

#include <concepts>
#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

/// Checks that ready_on of an imported array returns a stream that is ordered after the producer's work, or an event
/// after that work (R43).
template <class Array>
outcome check_ready_on(pending_tensor& on, Array& a) {
    if constexpr (has_ready_event<Array>) {
        stream_token const later = on.sim.make_stream();
        ferry::detail::wait_for_event(on.sim, array_traits<Array>::ready_on(a), view_of(a).device(), later);
        if (on.sim.was_written_by_host()) return broken("adopt wrote to device memory from the host");
        on.sim.run(later);
        return on.is_written
                   ? kept()
                   : broken(
                         "a stream that waits for the event of ready_on is not ordered after the producer's work: record "
                         "the event on the stream that adopt receives, after the import");
    } else if constexpr (!has_ready_on<Array>) {
        return broken(
            "the adapter of device arrays has no array_traits<T>::ready_on: define it, to order consumers' streams");
    } else {
        device_type const type = view_of(a).device().type;
        stream_token const ready = array_traits<Array>::ready_on(a);
        if (on.sim.was_written_by_host()) return broken("adopt wrote to device memory from the host");
        if (ready.is_none()) return broken("ready_on returned no stream: return a stream or already_ready");
        if (ready.is_ambiguous())
            return broken(
                "ready_on returned a null handle (R44): return the legacy or the per-thread default stream explicitly");
        if (!fits(ready, type)) return broken("ready_on returned a stream whose device type differs from the array's");
        if (ready.names_stream()) on.sim.run(ready);
        if (on.is_written) return kept();
        return broken(
            ready.names_stream()
                ? "ready_on returned a stream that is not ordered after the producer's stream: return current_stream()"
                : "ready_on returned already_ready while the producer's work was pending: return current_stream()");
    }
}

template <class Array>
outcome check_current_stream(device dev) {
    if constexpr (!has_current_stream<Array>) {
        return not_applicable("the adapter has no array_traits<T>::current_stream: imports use the default stream");
    } else {
        auto const token = array_traits<Array>::current_stream(dev);
        if (token.is_ambiguous())
            return broken(
                "current_stream returned a null handle: return the legacy or the per-thread default stream explicitly");
        if (!fits(token, dev.type))
            return broken("current_stream returned a stream whose device type differs from the requested one");
        return kept();
    }
}

/// Checks that all elements have been written once the work on the consumer's stream has completed.
template <class Array>
outcome check_ordered_export(pending_tensor& on, box<Array>& a) {
    stream_token const consumer = on.sim.make_stream();
    auto const exported = [&] {
        if constexpr (shareable<Array>) return ferry::to_dlpack(*a, {.stream = consumer}, on.sim);
        else return ferry::to_dlpack(std::move(*a), {.stream = consumer}, on.sim);
    }();
    on.sim.run(consumer);
    return on.is_written
               ? kept()
               : broken("the consumer's stream is not ordered after the array's work: return its stream from ready_on");
}

template <class Array>
outcome check_host_copy(pending_tensor& on, box<Array>& a) {
    auto const here = ferry::to_host(*a, on.sim);
    return check_elements(here.view(), "the result of to_host, read when it returned");
}

/// Checks that an array that is destroyed while a copy is queued does not release its memory before the copy has
/// completed.
template <class Array>
outcome check_queued_copy(pending_tensor& on, box<Array>& a) {
    if constexpr (!shareable<Array>) {
        return not_applicable("the adapter has no array_traits<T>::share: an lvalue must outlive the queued copy");
    } else {
        stream_token const consumer = on.sim.make_stream();
        // Exported twice, so that the simulated device allocates the copy.
        auto shared = ferry::to_dlpack(*a, {.stream = consumer}, on.sim);
        auto const copy =
            ferry::to_dlpack(std::move(shared), {.copy = copy_policy::always, .stream = consumer}, on.sim, consumer);
        a.destroy();
        if (on.tensor.releases() != 0)
            return broken("the array's memory was released while a copy was queued: share must return an owner");
        on.sim.run(consumer);
        if (!is_readable(copy.view().dtype())) return unread(copy.view(), "a queued copy");
        auto const* const elements = on.sim.elements(copy.view().data());
        return elements != nullptr && first_mismatch(copy.view(), elements) < 0
                   ? kept()
                   : broken("the elements of a queued copy differ from those of the array");
    }
}

/// Returns the reason why no simulated device memory is offered to an adapter.
[[nodiscard]] constexpr char const* without_device(bool is_reached) noexcept {
    return is_reached ? "the library uses devices of this type in this process: check the adapter on a real device"
                      : "the type holds host memory only, or adopt rejects simulated device memory";
}

template <class Array, class Make, class Recorder>
void check_handshake([[maybe_unused]] Make& make, [[maybe_unused]] produced const& made, Recorder& record) {
    accepted like;
    bool is_reached = false;
    if constexpr (adopting<Array> && std::move_constructible<Array>)
        for (device const d : {device{device_type::cuda}, device{device_type::rocm}, device{device_type::ext_dev}}) {
            if (like.is_any) break;
            if constexpr (reaches_devices<Make>)
                if (make.reaches(d)) {
                    is_reached = true;
                    continue;
                }
            like = find_accepted<Array>(made, d);
            like.is_any = like.is_any && is_same_device(like.dev, d);
        }
    auto const each = [&](auto check, bool on_explicit_stream = false) {
        return [&, check, on_explicit_stream]() -> outcome {
            static_cast<void>(check), static_cast<void>(on_explicit_stream);  // unused without adopt
            if (!like.is_any) return not_applicable(without_device(is_reached));
            if constexpr (adopting<Array> && std::move_constructible<Array>) {
                pending_tensor on{like.type, like.shape, like.dev};
                box<Array> a;
                request req;
                if (on_explicit_stream) req.stream = on.sim.make_stream();
                if (on.import(a, req)) return check(on, a);
                return broken(on_explicit_stream
                                  ? "the import on the stream of the request failed"
                                  : "the import on the stream of array_traits<T>::current_stream failed");
            }
            return kept();
        };
    };
    record("R44", "current_stream", [&] {
        return like.is_any ? check_current_stream<Array>(like.dev) : not_applicable(without_device(is_reached));
    });
    record("R43", "import_ordered", each([](pending_tensor& on, box<Array>& a) { return check_ready_on(on, *a); }));
    record("R43", "export_ordered", each([](pending_tensor& on, box<Array>& a) {
               if constexpr (std::move_constructible<Array>) return check_ordered_export(on, a);
               else return kept();
           }));
    record("R43", "import_on_stream",
           each(
               [](pending_tensor& on, box<Array>& a) -> outcome {
                   if constexpr (adopts_with_stream<Array>) return check_ordered_export(on, a);
                   else
                       return not_applicable(
                           "adopt has no stream_token parameter: imports on a stream other "
                           "than current_stream() are not ordered when exported again");
               },
               true));
    record("R48", "to_host", each([](pending_tensor& on, box<Array>& a) { return check_host_copy(on, a); }));
    record("R50", "queued_copy", each([](pending_tensor& on, box<Array>& a) { return check_queued_copy(on, a); }));
}

}  // namespace FERRY_NAMESPACE::conformance::detail
