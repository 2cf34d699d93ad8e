// ferry: marks of the work that streams have queued on memory, of a back end of any type.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/detail/any_owner.hpp>
#include <ferry/space/detail/operations.hpp>

#include <utility>
#include <vector>  // one mark for each stream

namespace FERRY_NAMESPACE::detail {

/// The operations on marks of a back end of one type. `record` returns an empty owner if nothing is pending. The others
/// are null if the marks do not have them.
struct mark_operations {
    result<any_owner> (*record)(void* back_end, stream_token on);
    result<> (*order)(void* mark, stream_token on);  ///< later work on `on` waits for the marked work
    bool (*is_done)(void* mark);                     ///< whether the marked work has completed
    void (*discard)(void* mark);                     ///< the destructor of the mark does not wait
};

/// A mark whose address an any_owner returns.
template <class Mark>
struct held_mark {
    Mark mark;
    [[nodiscard]] void* data() const noexcept { return const_cast<Mark*>(&mark); }
};

template <back_end B>
struct FERRY_HIDDEN marks_of {
    static result<any_owner> record(void* b, stream_token on) {
        if constexpr (marking_back_end<B>) {
            using mark_type = queued_by<B>;
            return own_result([&]() -> result<held_mark<mark_type>> {
                auto made = at<B>(b).mark(on);
                if constexpr (is_result<decltype(made)>)
                    if (!made) return made.error();
                return held_mark<mark_type>{std::move(unwrapped(made))};
            });
        } else {  // the back end cannot wait later
            if (auto waited = outcome_of([&] { return at<B>(b).wait(on); }); !waited) return waited.error();
            return any_owner{};
        }
    }
    template <class M>
    static constexpr mark_operations table_for() {
        mark_operations its{record, nullptr, nullptr, nullptr};
        if constexpr (requires(M& m, stream_token on) { m.order_before(on); })
            its.order = [](void* m, stream_token on) { return outcome_of([&] { return at<M>(m).order_before(on); }); };
        if constexpr (requires(M& m) { m.is_done(); }) its.is_done = [](void* m) -> bool { return at<M>(m).is_done(); };
        if constexpr (requires(M& m) { m.discard(); }) its.discard = [](void* m) { at<M>(m).discard(); };
        return its;
    }
    static constexpr mark_operations table = table_for<queued_by<B>>();
};

/// The marks of one allocation: of the last write and of the last read on each stream.
struct lease_marks {
    struct use {
        stream_token on;
        bool writes;
        any_owner mark;
    };
    std::vector<use> uses{};

    /// Returns whether a lease has to wait for a mark. A mark on the stream of the lease needs no wait, unless it is a
    /// per-thread default stream, whose thread is not known.
    [[nodiscard]] static bool precedes(use const& u, stream_token on, bool writes) noexcept {
        return (writes || u.writes) && !on.is_no_sync() &&
               (u.on != on || on.which() == stream_token::kind::per_thread_default);
    }
    /// Returns whether `prepare` is necessary. It also removes the marks of streams that no longer matter.
    [[nodiscard]] bool needs_order(stream_token on, bool writes) const noexcept {
        for (auto const& u : uses)
            if (precedes(u, on, writes)) return true;
        return uses.size() > 8;
    }
    /// Makes a stream wait for the last write and, for a write, for all uses. The host waits if `on` is no stream.
    [[nodiscard]] result<> prepare(stream_token on, bool writes, mark_operations const& its) {
        std::erase_if(uses, [&](use const& u) { return its.is_done != nullptr && its.is_done(u.mark.data()); });
        for (auto& u : uses) {
            if (!precedes(u, on, writes)) continue;
            if (!on.names_stream() || its.order == nullptr) u.mark = {};  // waits
            else if (auto ordered = its.order(u.mark.data(), on); !ordered) return ordered;
        }
        std::erase_if(uses, [](use const& u) { return u.mark.data() == nullptr; });
        return {};
    }
    [[nodiscard]] bool are_done(mark_operations const& its) const {
        for (auto const& u : uses)
            if (its.is_done != nullptr && !its.is_done(u.mark.data())) return false;
        return true;
    }
    /// Adds a mark, or replaces an earlier one of its stream. `added` then has the earlier one, to be discarded.
    void add(stream_token on, bool writes, any_owner& added) {
        if (added.data() == nullptr) return;
        bool const is_one_stream = on.which() != stream_token::kind::per_thread_default;
        for (auto& u : uses)
            if (is_one_stream && u.on == on && u.writes == writes) return std::swap(u.mark, added);
        uses.push_back({on, writes, {}});
        std::swap(uses.back().mark, added);
    }
};

}  // namespace FERRY_NAMESPACE::detail
