// ferry: how the host comes to bytes of a column that lies on a device.
#pragma once

#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/detail/operations.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>  // see compaction.hpp

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Copies what is asked for to the host: for each depth one staging buffer and one wait, with a copy for each run of
/// ranges that touch. Within one allocation a gap costs less than another copy.
template <class BackEnd>
class device_fetcher final : public range_fetcher {
   public:
    device_fetcher(BackEnd& b, device from, stream_token on, std::span<std::byte const> arena) noexcept
        : b_{b}, from_{from}, on_{on}, arena_{arena} {}

    void fetch(std::vector<source_range>& ranges, std::size_t first) override {
        if (first == ranges.size()) return;
        std::vector<std::size_t> order(ranges.size() - first);
        std::iota(order.begin(), order.end(), first);
        std::ranges::sort(order, {}, [&](std::size_t i) { return address(ranges[i].at); });
        std::vector<run> runs;
        for (auto const i : order) {
            auto const& r = ranges[i];
            auto const end = r.at + r.bytes;
            if (runs.empty() || !reaches(runs.back(), r)) runs.push_back({r.at, end});
            else if (address(end) > address(runs.back().end)) runs.back().end = end;
        }
        std::int64_t total = 0;
        for (auto& r : runs) {
            r.place = total;
            total += (r.end - r.begin + arena_alignment - 1) / arena_alignment * arena_alignment;
        }
        auto* const begin = static_cast<std::byte*>(staging_.emplace_back(static_cast<std::size_t>(total)).data());
        bring(runs, begin);
        auto at = runs.begin();
        for (auto const i : order) {
            while (address(ranges[i].at) >= address(at->end)) ++at;
            ranges[i].host = begin + at->place + (ranges[i].at - at->begin);
        }
    }

   private:
    struct run {
        std::byte const* begin = nullptr;
        std::byte const* end = nullptr;
        std::int64_t place = 0;
    };
    static constexpr std::uintptr_t gap = 4096;

    [[nodiscard]] static std::uintptr_t address(std::byte const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    [[nodiscard]] bool is_in_arena(std::byte const* p) const noexcept {
        return !arena_.empty() && address(p) - address(arena_.data()) < arena_.size();
    }
    [[nodiscard]] bool reaches(run const& last, source_range const& next) const noexcept {
        if (address(next.at) <= address(last.end)) return address(next.at) < address(last.end) || is_in_arena(next.at);
        return is_in_arena(last.begin) && is_in_arena(next.at) && address(next.at) - address(last.end) <= gap;
    }
    void bring(std::vector<run> const& runs, std::byte* to) {
        bool has_run = true;
        try {
            for (auto const& r : runs)
                has_run &= queue_copy(b_, plan_bytes(r.end - r.begin), to + r.place, cpu, r.begin, from_, on_);
        } catch (...) {
            // mutant: column_fetch_settle
            settle();  // the staging memory dies now
            throw;
        }
        if (!has_run && on_.names_stream()) b_.wait(on_);  // mutant: column_fetch_wait
    }
    void settle() noexcept {
        if (!on_.names_stream()) return;
        try {
            b_.wait(on_);
        } catch (...) {  // then nothing runs any more
        }
    }

    BackEnd& b_;
    device from_;
    stream_token on_;
    std::span<std::byte const> arena_;
    std::vector<buffer<host_space>> staging_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
