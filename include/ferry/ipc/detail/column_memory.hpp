// ferry: the memories of a column's share: one for each allocation that other processes can open, and one for copies of
// the rest.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/detail/used_bytes.hpp>
#include <ferry/ipc/detail/make_share.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/wire/check.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>  // std::less orders any pointers
#include <memory>      // see region.hpp
#include <source_location>
#include <utility>
#include <vector>  // of a descriptor

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// The memories of one share.
template <class BackEnd>
class column_memory {
   public:
    column_memory(std::shared_ptr<session_state> session, ferry::device place, copy_policy copy, bool freeze,
                  stream_token on, BackEnd& b, std::source_location where)
        : session_{std::move(session)},
          me_{begin_sharing(*session_, where)},
          place_{place},
          copy_{copy},
          freeze_{freeze},
          on_{on},
          b_{b},
          where_{where} {}

    [[nodiscard]] bool is_on_host() const noexcept { return is_host_accessible(place_); }

    /// Finds the memory of a buffer; -1 bytes: up to the end of its allocation. Returns null, or the reason why other
    /// processes cannot open it.
    [[nodiscard]] char const* locate(std::byte const* begin, std::int64_t bytes, wire::slice& out) {
        if (copy_ == copy_policy::always) return "a copy was asked for";
        auto const after = std::ranges::upper_bound(known_, begin, std::less<>{}, &known_range::begin);
        if (after != known_.begin() && take(*(after - 1), begin, bytes, out)) return nullptr;
        byte_range const range{begin, bytes < 0 ? 1 : static_cast<std::size_t>(bytes), 0};
        if (place_.type == device_type::cpu) {
            new_share fresh{session_, me_, freeze_, where_};
            if (!fresh.find(range, true)) return "it is not in shared memory";
            parts_.push_back(std::move(fresh));
        } else if (is_on_host()) {
            return "memory of its device has no handle for other processes";
        } else if constexpr (handle_back_end<BackEnd>) {
            if (!b_.exports(place_)) fail_no_handles(place_, where_);
            if (auto const* const refusal = b_.refusal(range, place_)) return refusal;
            export_range(range);
        } else {
            fail_no_handles(place_, where_);
        }
        auto const& known = keep();
        if (!take(known, begin, bytes, out))
            fail(errc::out_of_range, share_api, message{"a buffer leads out of its allocation"}, where_);
        return nullptr;
    }
    /// Notes bytes for `copy_missing`, which sets the slice.
    void add_missing(std::byte const* begin, std::int64_t bytes, wire::slice& out, char const* name) {
        missing_.push_back({{begin, bytes}, &out});
        copies_.buffers.emplace_back(name);
    }
    /// Copies each byte once, into one allocation. Finished on return.
    void copy_missing() {
        if (missing_.empty()) return;
        std::vector<ferry::detail::copied_range*> ranges;
        std::vector<ferry::detail::copied_range> runs;
        for (auto& m : missing_) ranges.push_back(&m.range);
        auto const total = static_cast<std::size_t>(ferry::detail::lay_out(ranges, runs));
        for (auto const& r : runs) copies_.bytes += static_cast<std::uint64_t>(r.bytes);
        is_copied_ = true;
        if (is_on_host()) {
            if (place_.type != device_type::cpu && on_.names_stream()) {
                static_cast<void>(ferry::detail::check_support(b_, place_, {share_api, where_}));
                b_.wait(on_);  // mutant: ipc_column_pinned_wait
            }
            new_share fresh{session_, me_, freeze_, where_};
            auto* const to = fresh.allocate(total, where_);
            for (auto const& r : runs) std::memcpy(to + r.at, r.begin, static_cast<std::size_t>(r.bytes));
            fresh.end_writes(true);
            parts_.push_back(std::move(fresh));
        } else if constexpr (handle_back_end<BackEnd>) {
            auto memory = b_.allocate_exportable(place_, total, on_);
            auto* const to = static_cast<std::byte*>(static_cast<void*>(memory.data()));
            ferry::detail::stream_memory_guard behind{b_, on_, place_};
            bool is_complete = true;
            for (auto const& r : runs)
                is_complete &= ferry::detail::queue_copy(b_, ferry::detail::plan_bytes(r.bytes), to + r.at, place_,
                                                         r.begin, place_, on_);
            if (!is_complete && on_.names_stream()) b_.wait(on_);
            behind.done();
            copy_memory_ = std::make_shared<decltype(memory)>(std::move(memory));
            export_range({to, total, 0});
        } else {
            fail_no_handles(place_, where_);
        }
        auto const& known = keep();
        for (auto const& m : missing_)
            *m.slice = {known.memory, static_cast<std::uint64_t>(m.range.at),
                        static_cast<std::uint64_t>(m.range.bytes)};
    }

    /// Permits attaches. Memory that is shared where it lies is kept by `owner`.
    [[nodiscard]] std::shared_ptr<share_state> finish(wire::node root, std::shared_ptr<void const> const& owner) {
        if (memories_.empty()) {
            parts_.emplace_back(session_, me_, freeze_, where_).allocate_none(is_on_host() ? cpu : place_, where_);
            keep();
        }
        std::vector<std::shared_ptr<share_state>> made;
        made.reserve(parts_.size());
        struct undo {
            std::vector<std::shared_ptr<share_state>>& made;
            ~undo() {
                for (auto const& one : made) one->session->close(one);
            }
        } const unless_done{made};
        for (auto& part : parts_) made.push_back(part.finish(where_));
        auto& s = *made[0];
        s.description.from = me_;
        s.description.memories = std::move(memories_);
        s.description.root = std::move(root);
        wire::check(s.description, where_);
        s.arena.dtype = dtype_of<std::uint8_t>;
        s.arena.shape = {static_cast<std::int64_t>(s.memories[0].length)};
        s.arena.flags = flags::read_only;
        bool const is_all_copied = known_.size() == 1 && is_copied_;
        s.copied = std::move(copies_);
        s.copy = std::move(copy_memory_);
        for (auto const& one : made)
            if (!is_all_copied) one->column_owner = owner;
        s.others.assign(made.begin() + 1, made.end());
        auto first = std::move(made[0]);
        made.clear();
        return first;
    }

   private:
    /// Bytes that are shared already, in address order.
    struct known_range {
        std::byte const* begin;
        std::byte const* end;
        std::uint32_t memory;
    };
    struct missing_range {
        ferry::detail::copied_range range;
        wire::slice* slice;
    };

    [[nodiscard]] static bool take(known_range const& known, std::byte const* begin, std::int64_t bytes,
                                   wire::slice& out) {
        if (std::less<>{}(known.end, begin)) return false;
        auto const room = static_cast<std::uint64_t>(known.end - begin);
        auto const length = bytes < 0 ? room : static_cast<std::uint64_t>(bytes);
        if (length > room) return false;
        out = {known.memory, static_cast<std::uint64_t>(begin - known.begin), length};
        return true;
    }
    /// All memories of a device have one control page, and one event, which the first has.
    void export_range(byte_range const& range) {
        auto const ready_on = parts_.empty() ? on_ : stream_token{};  // mutant: ipc_column_ready
        if (parts_.empty()) parts_.emplace_back(session_, me_, freeze_, where_);
        parts_[0].add_exported(range, place_, b_, ready_on, where_);
        auto& s = parts_[0].state();
        auto& m = s.memories.back();
        s.begins.back() -= m.offset;
        m.offset = 0;
        m.length = m.allocation;
    }
    /// Numbers the memory that was added last.
    known_range const& keep() {
        auto const& s = parts_.back().state();
        auto const* const begin = s.begins.back();
        known_range const known{begin, begin + s.memories.back().length, static_cast<std::uint32_t>(memories_.size())};
        memories_.push_back(s.memories.back());
        return *known_.insert(std::ranges::upper_bound(known_, known.begin, std::less<>{}, &known_range::begin), known);
    }

    std::shared_ptr<session_state> session_;
    wire::origin me_;
    ferry::device place_;
    copy_policy copy_;
    bool freeze_;
    stream_token on_;
    BackEnd& b_;
    std::source_location where_;
    std::shared_ptr<void const> copy_memory_{};  // outlives its handle
    std::vector<new_share> parts_{};
    std::vector<wire::memory> memories_{};
    std::vector<known_range> known_{};
    std::vector<missing_range> missing_{};
    share_copies copies_{};
    bool is_copied_ = false;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
