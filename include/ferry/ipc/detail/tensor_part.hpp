// ferry: describes a tensor for a share.
#pragma once

#include <ferry/base/shape.hpp>
#include <ferry/ipc/detail/new_share.hpp>
#include <ferry/space/copy.hpp>

namespace FERRY_NAMESPACE::ipc::detail {

/// Returns the device of a copy of memory of a device.
[[nodiscard]] inline ferry::device copied_to(ferry::device from) noexcept {
    return is_host_accessible(from) ? cpu : from;
}

/// Describes a tensor for other processes, and finds or copies its elements.
class tensor_part {
   public:
    /// Sets shape, strides, type and flags.
    tensor_part(tensor_view const& v, wire::tensor& out) : from_{v}, out_{&out} {
        out.dtype = v.dtype();
        out.flags = known(v.flags()) & ~flags::is_copied;  // shared memory has no sole owner (R12)
        for (int i = 0; i < v.rank(); ++i) {
            out.shape.push_back(v.extent(i));
            out.strides.push_back(v.stride(i));
        }
    }
    [[nodiscard]] tensor_view const& view() const noexcept { return from_; }
    [[nodiscard]] ferry::device place() const noexcept { return copied_to(from_.device()); }
    /// Returns whether the tensor is empty and not on the host.
    [[nodiscard]] bool is_nowhere() const noexcept { return from_.is_empty() && place().type != device_type::cpu; }

    /// Finds the memory of the tensor, as `new_share::locate` does. Sets the offset of the first element in `at`.
    template <class Name>
    [[nodiscard]] bool locate(new_share& share, Name const& name, wire::slice& at) {
        auto const range = range_of(from_);
        if (from_.is_empty() ||
            !share.locate(range.begin, static_cast<std::int64_t>(range.length), from_.device(), name, at))
            return false;
        out_->byte_offset = range.first;
        if (share.is_read_only()) out_->flags |= flags::read_only;
        return true;
    }
    /// Changes the layout to that of a copy, which is compact, except that dimensions of stride 0 are not expanded
    /// (R29). Returns the size of the copy in bytes.
    std::size_t lay_out() {
        auto& t = *out_;
        unique_ = t.shape;
        std::int64_t step = 1;
        for (auto i = unique_.size(); i-- > 0;) {
            bool const repeats = t.shape[i] > 1 && t.strides[i] == 0;
            if (repeats) unique_[i] = 1;
            t.strides[i] = repeats ? 0 : step;
            step = ferry::detail::compact_step(step, unique_[i]);
        }
        return static_cast<std::size_t>(compact(nullptr).nbytes());
    }
    /// Sets the memory of the elements, and adds the offset in it to the one that `locate` or `lay_out` has set.
    void set_place(std::uint32_t memory, std::uint64_t offset) noexcept {
        out_->memory = memory;
        out_->byte_offset += static_cast<std::int64_t>(offset);
    }
    /// Copies the elements to memory of `place()`.
    void copy(void* to, handle_ref b, stream_token on, std::source_location where) const {
        if (from_.is_empty()) return;
        ferry::copy(compact(to), {from_.data(), from_.dtype(), unique_, from_.strides(), from_.device(), padded()}, b,
                    on, where);
    }

   private:
    [[nodiscard]] flags padded() const noexcept { return out_->flags & flags::subbyte_padded; }
    [[nodiscard]] tensor_view compact(void* at) const noexcept {
        return {at, from_.dtype(), unique_, {}, place(), padded()};
    }

    tensor_view from_;
    wire::tensor* out_;
    std::vector<std::int64_t> unique_{};  // shape of the elements that are copied
};

}  // namespace FERRY_NAMESPACE::ipc::detail
