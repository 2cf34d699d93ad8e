// ferry: copies of columns between devices. Requires exceptions.
#pragma once

#include <ferry/config.hpp>

#if FERRY_HAS_EXCEPTIONS
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/detail/device_fetcher.hpp>
#include <ferry/column/detail/move_arena.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/detail/operations.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>  // shared ownership of the arena
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE {
namespace detail {

/// Memory of an arena, and what a queued copy may still read to fill it.
template <class Memory, class Mark>
struct moved_arena {
    Memory memory;
    column source;
    FERRY_NO_UNIQUE_ADDRESS Mark queued{};  // last: it waits before they go
};

/// One move of a column. `allocate(bytes)` gives memory at `to`.
template <class BackEnd, class Allocate>
class column_mover {
   public:
    column_mover(BackEnd& b, Allocate allocate, device from, device to, stream_token on, std::source_location where)
        : b_{b},
          allocate_{std::move(allocate)},
          from_{from},
          to_{to},
          on_{on.on_device(is_host_accessible(to) ? from : to)},
          where_{where} {}

    [[nodiscard]] column move(column const& c, slices how = slices::apart) {
        auto const part = arena_part::of(c.view());
        if (part.bytes != 0 && (how == slices::together || has_no_slices(c.view().node()))) return move_arena(c, part);
        if (is_host_accessible(from_)) {
            settle_before_reading();
            host_fetcher fetcher;
            return write(compaction_planner{fetcher, api, where_}.run(view_of(c), how));
        }
        device_fetcher<BackEnd> fetcher{b_, from_, on_, c.view().node().arena};
        // The fetcher keeps what was fetched.
        return write(compaction_planner{fetcher, api, where_}.run(view_of(c), how));
    }

   private:
    static constexpr char const* api = "ferry::column::to";
    using memory_type = std::remove_cvref_t<std::invoke_result_t<Allocate&, std::size_t>>;

    /// The view as the chunks of a plan.
    [[nodiscard]] std::span<column_view const> view_of(column const& c) {
        view_ = c.view();
        return {&view_, 1};
    }
    using arena = moved_arena<memory_type, queued_by<BackEnd>>;

    [[nodiscard]] std::shared_ptr<arena> make_owner(std::int64_t bytes, column source = {}) {
        arena taken{allocate_(static_cast<std::size_t>(bytes)), std::move(source)};
        stream_memory_guard behind{b_, on_, to_};
        auto made = std::make_shared<arena>(std::move(taken));
        behind.done();
        return made;
    }

    /// One copy, whatever is in it.
    [[nodiscard]] column move_arena(column const& c, arena_part const& part) {
        bool const reads_later = from_.type != device_type::cpu && !is_host_accessible(to_) && on_.names_stream();
        auto const owner = make_owner(part.bytes, reads_later ? c : column{});  // mutant: column_source_kept
        stream_memory_guard behind{b_, on_, to_};                               // mutant: column_failed_move
        auto* const begin = static_cast<std::byte*>(static_cast<void*>(owner->memory.data()));
        auto tree = std::make_shared<column_tree>();
        tree->owner = owner;
        static_cast<void>(build(*tree, moved_source{c.view(), part, begin}, to_, {api, where_}));
        for (std::size_t i = 0; i < tree->node_count; ++i)
            tree->nodes[i].arena = {begin, static_cast<std::size_t>(part.bytes)};
        // Last, so that no failure frees memory that a queued copy still writes.
        if (is_host_accessible(from_) && is_host_accessible(to_)) {
            settle_before_reading();
            settle_before_writing();
            std::memcpy(begin, part.begin, static_cast<std::size_t>(part.bytes));
        } else {
            auto const plan = plan_bytes(part.bytes);
            // mutant: column_to_host_wait
            if (is_host_accessible(to_)) copy_and_wait(b_, plan, begin, to_, part.begin, from_, on_);
            // mutant: column_queued_mark
            else if (!queue_copy(b_, plan, begin, to_, part.begin, from_, on_)) owner->queued = mark_queued(b_, on_);
        }
        behind.done();
        return column_access::make(std::move(tree));
    }

    [[nodiscard]] column write(compaction const& plan) {
        if (plan.arena == 0) return column_access::make(make_tree(plan, nullptr, nullptr, to_, api, where_));
        if (is_host_accessible(to_)) {
            auto owner = make_owner(plan.arena);
            auto* const begin = static_cast<std::byte*>(static_cast<void*>(owner->memory.data()));
            settle_before_writing();
            arena_filler{plan, begin, api, where_}.run();
            return column_access::make(make_tree(plan, begin, std::move(owner), to_, api, where_));
        }
        buffer<host_space> const staging{static_cast<std::size_t>(plan.arena)};
        arena_filler{plan, static_cast<std::byte*>(staging.data()), api, where_}.run();
        auto const owner = make_owner(plan.arena);
        stream_memory_guard behind{b_, on_, to_};  // mutant: column_failed_write
        auto* const begin = static_cast<std::byte*>(static_cast<void*>(owner->memory.data()));
        auto tree = make_tree(plan, begin, owner, to_, api, where_);
        // Has read the staging memory when it returns.
        // mutant: column_written_mark
        if (!queue_copy(b_, plan_bytes(plan.arena), begin, to_, staging.data(), cpu, on_))
            owner->queued = mark_queued(b_, on_);
        behind.done();
        return column_access::make(std::move(tree));
    }
    /// A stream may still write pinned and managed memory.
    void settle_before_reading() {
        if (from_.type != device_type::cpu && on_.names_stream()) b_.wait(on_);  // mutant: column_host_source_wait
    }
    /// Pinned and managed memory is given out for work on the stream, and may still be in use by what is queued there.
    void settle_before_writing() {
        if (to_.type != device_type::cpu && on_.names_stream()) b_.wait(on_);
    }

    BackEnd& b_;
    Allocate allocate_;
    device from_, to_;
    stream_token on_;
    std::source_location where_;
    column_view view_{};
};

/// See column::to.
template <class Where>
struct column_move {
    template <class BackEnd>
    [[nodiscard]] static column run(column const& c, Where const& place, BackEnd& b, stream_token on,
                                    std::source_location where) {
        constexpr auto api = "ferry::column::to";
        ferry::device target;
        if constexpr (memory_space<Where>) target = place.device();
        else target = place;
        auto const from = c.device();
        if (is_same_device(from, target)) return c;
        static_cast<void>(check_support(b, from, {api, where}));
        static_cast<void>(check_support(b, target, {api, where}));
        if (on.is_ambiguous())
            fail(errc::stream, api,
                 message{"the stream is null (R44): use the legacy default stream or the per-thread default stream"},
                 where);
        auto const allocate = [&](std::size_t bytes) {
            if constexpr (memory_space<Where>) return buffer<Where>{bytes, place};
            else return b.allocate(target, bytes, on.on_device(target));
        };
        return column_mover<BackEnd, decltype(allocate)>{b, allocate, from, target, on, where}.move(c);
    }
};

}  // namespace detail
}  // namespace ferry::inline FERRY_ABI_NAMESPACE
#endif
