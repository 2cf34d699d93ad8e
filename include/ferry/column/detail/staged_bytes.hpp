// ferry: bits and bytes that the host makes or reads, of columns that may lie elsewhere.
#pragma once

#include <ferry/column/bitmap.hpp>
#include <ferry/column/detail/device_fetcher.hpp>
#include <ferry/column/view.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/detail/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>

namespace ferry::inline v0::detail {

/// Bytes of any device where the host reads them, finished: themselves, or a copy.
class staged_bytes {
   public:
    template <class BackEnd>
    staged_bytes(void const* data, std::int64_t bytes, device from, BackEnd& b, stream_token on, char const* api,
                 std::source_location where)
        : data_{data} {
        if (from.type == device_type::cpu || bytes == 0) return;
        static_cast<void>(check_support(b, from, {api, where}));
        if (!is_host_accessible(from)) {
            copy_.emplace(static_cast<std::size_t>(bytes));
            data_ = copy_->data();
            copy_and_wait(b, plan_bytes(bytes), copy_->data(), cpu, data, from, on);  // mutant: column_bits_wait
        } else if (on.names_stream()) {
            b.wait(on);
        }
    }
    [[nodiscard]] void const* data() const noexcept { return data_; }

   private:
    std::optional<buffer<host_space>> copy_{};
    void const* data_;
};

/// The bits of a column's buffer, of its items alone.
class staged_bits {
   public:
    template <class BackEnd>
    staged_bits(column_view c, std::size_t buffer, BackEnd& b, stream_token on, char const* api,
                std::source_location where)
        : bytes_{static_cast<std::byte const*>(c.buffers()[buffer].data) + (c.length() != 0 ? c.offset() / 8 : 0),
                 c.length() != 0 ? bitmap_bytes(c.offset() % 8 + c.length()) : 0,
                 c.device(),
                 b,
                 on,
                 api,
                 where},
          view_{bytes_.data(), c.offset() % 8, c.length()} {}
    [[nodiscard]] bitmap_view view() const noexcept { return view_; }

   private:
    staged_bytes bytes_;
    bitmap_view view_;
};

/// Memory, and the mark of the copy into it: waits before the memory goes.
template <class Memory, class Mark>
struct marked {
    Memory memory;
    [[no_unique_address]] Mark queued;
};

/// Fresh memory on a device with bytes that `fill(host memory)` writes. `own(memory, data)` makes its owner: behind the
/// copy where a mark keeps the memory until it was made, else before the copy is queued, so that no failure frees what
/// it still writes.
template <class BackEnd, class Fill, class Own>
[[nodiscard]] auto put_bytes(std::int64_t bytes, device place, BackEnd& b, stream_token on, Fill fill, Own own) {
    buffer<host_space> staging{static_cast<std::size_t>(bytes)};
    if (bytes != 0) fill(staging.data());
    if (place.type == device_type::cpu || bytes == 0) {
        void* const data = staging.data();
        return own(std::move(staging), data);
    }
    auto memory = b.allocate(place, static_cast<std::size_t>(bytes), on);
    void* const data = memory.data();
    if constexpr (marking_back_end<BackEnd>) {
        if (!is_host_accessible(place)) {
            using marked_memory = marked<decltype(memory), queued_by<BackEnd>>;
            marked_memory taken{std::move(memory), {}};
            stream_memory_guard behind{b, on, place};
            if (!queue_copy(b, plan_bytes(bytes), data, place, staging.data(), cpu, on))
                taken.queued = mark_queued(b, on);
            behind.done();
            return own(std::move(taken), data);
        }
    }
    auto made = own(std::move(memory), data);
    if (is_host_accessible(place)) copy_and_wait(b, plan_bytes(bytes), data, place, staging.data(), cpu, on);
    else queue_copy(b, plan_bytes(bytes), data, place, staging.data(), cpu, on);
    return made;
}

}  // namespace ferry::inline v0::detail
