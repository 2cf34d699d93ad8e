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
#include <iterator>
#include <map>     // see region.hpp
#include <memory>  // see region.hpp
#include <source_location>
#include <span>
#include <utility>
#include <variant>
#include <vector>  // of a descriptor

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// The memories of one share.
template <class BackEnd>
class column_memory {
   public:
    column_memory(std::shared_ptr<session_state> session, copy_policy copy, bool freeze, stream_token on,
                  column_view all, BackEnd& b, std::source_location where)
        : session_{std::move(session)},
          me_{begin_sharing(*session_, where)},
          copy_{copy},
          freeze_{freeze},
          on_{on},
          all_{all},
          b_{b},
          where_{where} {}

    /// The stream of copies on a device. A handle is a stream of one device: for a column on several, the host waits.
    [[nodiscard]] stream_token copies_on(ferry::device place) {
        if (!all_.is_mixed() || on_.is_default() || !on_.names_stream()) return on_.on_device(place);
        if (!std::exchange(has_waited_, true)) b_.wait(on_);  // mutant: ipc_column_copies_wait
        return {};
    }
    /// Finds the memory of a buffer on `place`; -1 bytes: up to the end of its allocation. `name()` names the buffer.
    /// Returns null, or the reason why other processes cannot open it.
    template <class Name>
    [[nodiscard]] char const* locate(std::byte const* begin, std::int64_t bytes, ferry::device place, Name const& name,
                                     wire::slice& out) {
        if (copy_ == copy_policy::always) return "a copy was asked for";
        auto const after = known_.upper_bound(begin);
        if (after != known_.begin() && take(std::prev(after)->second, begin, bytes, place, out)) return nullptr;
        byte_range const range{begin, bytes < 0 ? 1 : static_cast<std::size_t>(bytes), 0};
        known_range const* known = nullptr;
        if (place.type == device_type::cpu) {
            new_share fresh{session_, me_, freeze_, where_};
            if (!fresh.find(range, true)) return "it is not in shared memory";
            known = &keep(std::move(fresh), place);
        } else if (is_host_accessible(place)) {
            return "memory of its device has no handle for other processes";
        } else if constexpr (handle_back_end<BackEnd>) {
            if (!b_.exports(place)) fail_no_handles(place, where_, name());
            if (auto const* const refusal = b_.refusal(range, place)) return refusal;
            known = &export_range(range, place, nullptr);
        } else {
            fail_no_handles(place, where_, name());
        }
        if (!take(*known, begin, bytes, place, out))
            fail(errc::out_of_range, share_api, name() << ": it leads out of its allocation", where_);
        return nullptr;
    }
    /// Notes bytes for `copy_missing`, which sets the slice.
    void add_missing(std::byte const* begin, std::int64_t bytes, ferry::device place, wire::slice& out,
                     message const& name) {
        if (!is_host_accessible(place) && !handle_back_end<BackEnd>) fail_no_handles(place, where_, name);
        missing_.push_back({{begin, bytes}, place, &out});
        copies_.buffers.emplace_back(name.c_str());
    }
    /// Copies each byte once, into one allocation for each device. Finished on return.
    void copy_missing() {
        auto const to = [](ferry::device d) { return is_host_accessible(d) ? cpu : d; };
        while (!missing_.empty()) {
            auto const place = to(missing_.back().place);
            auto const begin = std::partition(missing_.begin(), missing_.end(), [&](missing_range const& m) {
                return !is_same_device(to(m.place), place);
            });
            copy_missing({begin, missing_.end()}, place);
            missing_.erase(begin, missing_.end());
        }
    }

    /// Permits attaches. Memory that is shared in place is kept by `owner`. A column without bytes is on `place`.
    [[nodiscard]] std::shared_ptr<share_state> finish(wire::node root, std::shared_ptr<void const> const& owner,
                                                      ferry::device place) {
        if (memories_.empty()) {
            new_share fresh{session_, me_, freeze_, where_};
            fresh.allocate_none(is_host_accessible(place) ? cpu : place, where_);
            keep(std::move(fresh), place);
        }
        std::vector<std::shared_ptr<share_state>> made;
        made.reserve(parts_.size());
        struct undo {
            std::vector<std::shared_ptr<share_state>>& made;
            ~undo() {
                for (auto const& one : made) one->session->close(one);
            }
        } const unless_done{made};
        for (auto& part : parts_) {
            std::get<wire::tensor>(part.state().description.root).flags = flags::read_only;  // of aliases
            made.push_back(part.finish(where_));
        }
        auto& s = *made[0];
        s.description.from = me_;
        s.description.memories = std::move(memories_);
        s.description.root = std::move(root);
        wire::check(s.description, where_);
        s.arena.dtype = dtype_of<std::uint8_t>;
        s.arena.shape = {static_cast<std::int64_t>(s.memories[0].length)};
        s.arena.flags = flags::read_only;
        bool const is_all_copied = copied_ != 0 && known_.size() == copied_;
        s.copied = std::move(copies_);
        for (auto const& one : made)
            if (!is_all_copied) one->column_owner = owner;
        s.others.assign(made.begin() + 1, made.end());
        auto first = std::move(made[0]);
        made.clear();
        return first;
    }

   private:
    /// An allocation that is shared already. They are in a map, because the kernel maps each segment below the last
    /// one, so that a sorted vector would insert each at the front.
    struct known_range {
        std::byte const* begin;
        std::byte const* end;
        std::uint32_t memory;
        ferry::device place;
    };
    struct missing_range {
        ferry::detail::copied_range range;
        ferry::device place;
        wire::slice* slice;
    };

    [[nodiscard]] static bool take(known_range const& known, std::byte const* begin, std::int64_t bytes,
                                   ferry::device place, wire::slice& out) {
        // A buffer of unknown size at the end of this allocation is in another one, which begins there.
        bool const is_after = std::less<>{}(known.end, begin) || (begin == known.end && bytes < 0);
        if (!is_same_device(known.place, place) || is_after) return false;
        auto const room = static_cast<std::uint64_t>(known.end - begin);
        auto const length = bytes < 0 ? room : static_cast<std::uint64_t>(bytes);
        if (length > room) return false;
        out = {known.memory, static_cast<std::uint64_t>(begin - known.begin), length};
        return true;
    }
    void copy_missing(std::span<missing_range> missing, ferry::device place) {
        std::vector<ferry::detail::copied_range*> ranges;
        std::vector<ferry::detail::copied_range> runs;
        for (auto& m : missing) ranges.push_back(&m.range);
        auto const total = static_cast<std::size_t>(ferry::detail::lay_out(ranges, runs));
        for (auto const& r : runs) copies_.bytes += static_cast<std::uint64_t>(r.bytes);
        ++copied_;
        known_range const* known = nullptr;
        if (place.type == device_type::cpu) {
            auto const other = std::ranges::find_if(missing, [](auto& m) { return m.place.type != device_type::cpu; });
            if (other != missing.end()) {
                ferry::detail::wait_for_devices(all_, b_, on_, {share_api, where_});  // mutant: ipc_column_pinned_wait
            }
            new_share fresh{session_, me_, freeze_, where_};
            auto* const to = fresh.allocate(total, where_);
            for (auto const& r : runs) std::memcpy(to + r.at, r.begin, static_cast<std::size_t>(r.bytes));
            fresh.end_writes(true);
            known = &keep(std::move(fresh), place);
        } else if constexpr (handle_back_end<BackEnd>) {
            auto const on = copies_on(place);
            auto memory = b_.allocate_exportable(place, total, on);
            auto* const to = static_cast<std::byte*>(static_cast<void*>(memory.data()));
            ferry::detail::stream_memory_guard behind{b_, on, place};
            bool is_complete = true;
            for (auto const& r : runs)
                is_complete &= ferry::detail::queue_copy(b_, ferry::detail::plan_bytes(r.bytes), to + r.at, place,
                                                         r.begin, place, on);
            if (!is_complete && on.names_stream()) b_.wait(on);
            behind.done();
            known = &export_range({to, total, 0}, place, std::make_shared<decltype(memory)>(std::move(memory)));
        }
        for (auto const& m : missing)
            *m.slice = {known->memory, static_cast<std::uint64_t>(m.range.at),
                        static_cast<std::uint64_t>(m.range.bytes)};
    }
    /// All memories of a device have one control page and one event, which the first one exports. `copy` outlives the
    /// handle.
    known_range const& export_range(byte_range const& range, ferry::device place, std::shared_ptr<void const> copy) {
        auto const found = std::ranges::find_if(parts_, [&](new_share const& part) {
            return !part.state().handles.empty() && is_same_device(part.state().device, place);
        });
        bool const is_first = found == parts_.end();
        if (is_first) parts_.emplace_back(session_, me_, freeze_, where_);
        auto& part = is_first ? parts_.back() : *found;
        auto& s = part.state();
        if (copy != nullptr) s.copy = std::move(copy);
        auto const ready_on = is_first ? on_.on_device(place) : stream_token{};  // mutant: ipc_column_ready
        part.add_exported(range, place, b_, ready_on, where_);
        auto& m = s.memories.back();
        s.begins.back() -= m.offset;
        m.offset = 0;
        m.length = m.allocation;
        return keep(s, place);
    }
    known_range const& keep(new_share part, ferry::device place) {
        parts_.push_back(std::move(part));
        return keep(parts_.back().state(), place);
    }
    /// Numbers the memory that was added last.
    known_range const& keep(share_state& s, ferry::device place) {
        auto const* const begin = s.begins.back();
        auto const number = static_cast<std::uint32_t>(memories_.size());
        s.numbers.back() = number;
        memories_.push_back(s.memories.back());
        known_range const known{begin, begin + s.memories.back().length, number, place};
        return known_.emplace(begin, known)->second;
    }

    std::shared_ptr<session_state> session_;
    wire::origin me_;
    copy_policy copy_;
    bool freeze_;
    stream_token on_;
    column_view all_;
    bool has_waited_ = false;
    BackEnd& b_;
    std::source_location where_;
    std::vector<new_share> parts_{};
    std::vector<wire::memory> memories_{};
    std::multimap<std::byte const*, known_range, std::less<>> known_{};  // by address
    std::vector<missing_range> missing_{};
    share_copies copies_{};
    std::size_t copied_ = 0;  // number of memories with copies
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
