// ferry: reads and writes bits and bytes of columns in any memory through the host.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/column/bitmap.hpp>
#include <ferry/column/view.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of copies
#include <optional>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// Returns the plan of a copy of contiguous bytes.
[[nodiscard]] constexpr copy_plan plan_bytes(std::int64_t bytes) noexcept {
    copy_plan plan;
    if (bytes == 0) return plan;
    plan.kind = copy_kind::contiguous;
    plan.unit = plan.total_bytes = bytes;
    return plan;
}

/// Makes bytes on any device readable by the host: waits for the work on them, and copies them if necessary.
class staged_bytes {
   public:
    [[nodiscard]] bool stage(void const* data, std::int64_t bytes, device from, back_end_ref b, stream_token on,
                             reporter r) {
        data_ = data;
        if (from.type == device_type::cpu || bytes == 0) return true;
        if (!check_support(b, from, r)) return false;
        if (is_host_accessible(from)) return wait_for(b, on, r);
        auto memory = host_only.allocate(cpu, static_cast<std::size_t>(bytes), {});
        if (!check_memory(memory, r)) return false;
        copy_.emplace(std::move(unwrapped(memory)));
        data_ = copy_->data();
        return copy_and_wait(b, plan_bytes(bytes), copy_->data(), cpu, data, from, on, r);
    }
    [[nodiscard]] void const* data() const noexcept { return data_; }

   private:
    std::optional<buffer<host_space>> copy_{};
    void const* data_ = nullptr;
};

/// Makes the bits of the column's items in a buffer readable by the host. `kept` owns the copy, if any.
[[nodiscard]] inline bool stage_bits(column_view c, std::size_t buffer, staged_bytes& kept, bitmap_view& out,
                                     back_end_ref b, stream_token on, reporter r) {
    bool const is_empty = c.length() == 0;
    auto const* const begin = static_cast<std::byte const*>(c.buffers()[buffer].data) + (is_empty ? 0 : c.offset() / 8);
    auto const bytes = is_empty ? 0 : bitmap_bytes(c.offset() % 8 + c.length());
    if (!kept.stage(begin, bytes, c.device(), b, on, r)) return false;
    out = {kept.data(), c.offset() % 8, c.length()};
    return true;
}

/// Allocates memory on a device for bytes that `fill(host memory)` writes. Calls `make(owner, data)` for the result
/// before it queues the copy, so that a failure cannot free memory that a queued copy writes. Returns an empty result
/// on failure.
template <class Fill, class Make>
[[nodiscard]] auto put_bytes(std::int64_t bytes, device place, back_end_ref b, stream_token on, Fill fill, Make make,
                             reporter r) -> std::invoke_result_t<Make&, std::shared_ptr<void const>, void*> {
    auto const size = static_cast<std::size_t>(bytes);
    auto host = host_only.allocate(cpu, size, {});
    if (!check_memory(host, r)) return {};
    auto& staging = unwrapped(host);
    if (bytes != 0) fill(staging.data());
    if (place.type == device_type::cpu || bytes == 0) {
        void* const data = staging.data();
        return make(std::make_shared<buffer<host_space>>(std::move(staging)), data);
    }
    auto got = b.allocate(place, size, on);
    if (!check_memory(got, r)) return {};
    auto& memory = unwrapped(got);
    std::shared_ptr<copy_with_source<any_owner, std::nullptr_t, any_owner>> owner;
    stream_memory_guard behind{b, on, place};
    owner = std::make_shared<typename decltype(owner)::element_type>(std::move(memory));
    void* const data = owner->memory.data();
    auto made = make(owner, data);
    if (!made) return {};
    bool is_complete = false;
    bool const is_put = is_host_accessible(place)
                            ? copy_and_wait(b, plan_bytes(bytes), data, place, staging.data(), cpu, on, r)
                            : queue_copy(b, plan_bytes(bytes), data, place, staging.data(), cpu, on, is_complete, r) &&
                                  (is_complete || mark_queued(b, on, owner->queued, r));
    if (!is_put) return {};
    behind.done();
    return made;
}

}  // namespace FERRY_NAMESPACE::detail
