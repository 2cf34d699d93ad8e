// ferry: whether what an adapter says of streams makes exchanges wait: judged on arrays of a simulated asynchronous
// device.
#pragma once

#include <ferry/conformance/detail/import.hpp>
#include <ferry/conformance/detail/scene.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>

#include <concepts>
#include <utility>

namespace ferry::inline v0::conformance::detail {

/// Where work on an imported array is pending: a stream that has got the producer's work before it.
template <class Array>
outcome judge_ready_on(scene& on, Array& a) {
    device_type const type = view_of(a).device().type;
    if constexpr (!tells_ready_on<Array>) {
        return broken(
            "arrays off the host without array_traits<T>::ready_on: no consumer's stream can be ordered after their work");
    } else {
        stream_token const ready = array_traits<Array>::ready_on(a);
        if (on.sim.was_written_by_host()) return broken("adopt wrote into device memory from the host");
        if (ready.is_none()) return broken("ready_on says nothing: name a stream, or say already_ready");
        if (ready.is_ambiguous())
            return broken("ready_on gives a null handle: say the legacy or the per-thread default stream (R44)");
        if (!fits(ready, type)) return broken("ready_on names a stream of another kind of device");
        if (ready.names_stream()) on.sim.run(ready);
        if (on.is_written) return kept();
        return broken(
            ready.names_stream()
                ? "ready_on names a stream that does not wait for the producer's: import on current_stream, and name that"
                : "ready_on says already_ready while the producer's work is pending");
    }
}

template <class Array>
outcome judge_current_stream(device where) {
    if constexpr (!tells_current_stream<Array>) {
        return not_applicable("there is no array_traits<T>::current_stream: imports happen on the default stream");
    } else {
        auto const token = array_traits<Array>::current_stream(where);
        if (token.is_ambiguous())
            return broken("current_stream gives a null handle: say the legacy or the per-thread default stream");
        if (!fits(token, where.type))
            return broken("current_stream names a stream of another kind of device than it was asked for");
        return kept();
    }
}

/// A consumer's stream, and nothing else, runs; then it must find the elements.
template <class Array>
outcome judge_ordered_export(scene& on, box<Array>& a) {
    stream_token const consumer = on.sim.make_stream();
    auto const exported = [&] {
        if constexpr (shareable<Array>) return ferry::to_dlpack(*a, {.stream = consumer}, on.sim);
        else return ferry::to_dlpack(std::move(*a), {.stream = consumer}, on.sim);
    }();
    on.sim.run(consumer);
    return on.is_written
               ? kept()
               : broken("the consumer's stream does not wait for the work on the array: ready_on must name its stream");
}

template <class Array>
outcome judge_host_copy(scene& on, box<Array>& a) {
    auto const here = ferry::to_host(*a, on.sim);
    return count_up(here.view(), "the array, on the host when to_host returned");
}

/// The array goes while a copy of it is queued.
template <class Array>
outcome judge_queued_copy(scene& on, box<Array>& a) {
    if constexpr (!shareable<Array>) {
        return not_applicable("there is no array_traits<T>::share: an lvalue must outlive the queued copy");
    } else {
        stream_token const consumer = on.sim.make_stream();
        // So that the copy is in memory of the simulation.
        auto shared = ferry::to_dlpack(*a, {.stream = consumer}, on.sim);
        auto const copy =
            ferry::to_dlpack(std::move(shared), {.copy = copy_policy::always, .stream = consumer}, on.sim, consumer);
        a.destroy();
        if (on.tensor.releases() != 0)
            return broken("the array's memory was released while a copy of it was queued: share must own");
        on.sim.run(consumer);
        auto const* const elements = on.sim.elements(copy.view().data());
        return elements != nullptr && first_wrong(copy.view(), elements) < 0
                   ? kept()
                   : broken("a queued copy has not the elements of the array");
    }
}

template <class Array, class Judge>
void judge_handshake(Judge& judge) {
    taken like;
    device where;
    if constexpr (adopting<Array> && std::move_constructible<Array>) {
        like = find_taken<Array>();
        bool found = false;
        for (device const d : {device{device_type::cuda}, device{device_type::rocm}, device{device_type::ext_dev}}) {
            if (found || !like.is_any) break;
            foreign t{like.type, *like.shape};
            t.on(d, t.raw()->dl_tensor.data);
            box<Array> a;
            if (!a.construct([&]() -> Array { return take_over<Array>(t); })) continue;
            found = is_same_place(view_of(*a).device(), d);
            where = d;
        }
        like.is_any = found;
    }
    auto const each = [&](auto check, bool on_explicit_stream = false) {
        return [&like, &where, check, on_explicit_stream]() -> outcome {
            // where nothing can be taken over
            static_cast<void>(check), static_cast<void>(where), static_cast<void>(on_explicit_stream);
            if (!like.is_any)
                return not_applicable("the type holds no memory off the host, or cannot take over any here");
            if constexpr (adopting<Array> && std::move_constructible<Array>) {
                scene on{like.type, *like.shape, where};
                box<Array> a;
                request wish;
                if (on_explicit_stream) wish.stream = on.sim.make_stream();
                if (on.import(a, wish)) return check(on, a);
                return broken(on_explicit_stream
                                  ? "it cannot be imported on a stream that the request names"
                                  : "it cannot be imported on the stream that array_traits<T>::current_stream names");
            }
            return kept();
        };
    };
    judge("R44", "current_stream", [&] {
        return like.is_any ? judge_current_stream<Array>(where)
                           : not_applicable("the type holds no memory off the host");
    });
    judge("R43", "import_ordered", each([](scene& on, box<Array>& a) { return judge_ready_on(on, *a); }));
    judge("R43", "export_ordered", each([](scene& on, box<Array>& a) {
              if constexpr (std::move_constructible<Array>) return judge_ordered_export(on, a);
              else return kept();
          }));
    judge("R43", "import_on_stream", each(
                                         [](scene& on, box<Array>& a) -> outcome {
                                             if constexpr (adopts_with_stream<Array>)
                                                 return judge_ordered_export(on, a);
                                             else
                                                 return not_applicable(
                                                     "adopt takes no stream_token: imports on another stream than "
                                                     "current_stream are not ordered when they are exported again");
                                         },
                                         true));
    judge("R48", "to_host", each([](scene& on, box<Array>& a) { return judge_host_copy(on, a); }));
    judge("R50", "queued_copy", each([](scene& on, box<Array>& a) { return judge_queued_copy(on, a); }));
}

}  // namespace ferry::inline v0::conformance::detail
