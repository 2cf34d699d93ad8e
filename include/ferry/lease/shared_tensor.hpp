// ferry: tensors whose copies share memory until one of them is written.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/lease/detail/spill_core.hpp>
#include <ferry/lease/options.hpp>
#include <ferry/lease/spillable.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/memory_space.hpp>
#include <ferry/tensor/managed.hpp>

#include <memory>  // copies and leases share the state
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE {

/// A tensor that is copied when it is written, if another object shares its memory.
///
/// Copies of a shared_tensor share memory. `write` is in place if this object alone uses the memory, and otherwise
/// first moves this object to a copy, so that other objects, and tensors that `read` returned, keep the old values.
/// While a tensor that `write` returned exists, a copy of the object does not share memory, since its consumer may
/// write at any time; afterwards, copies share again. Threads may use different objects concurrently, also if they
/// share memory.
class shared_tensor {
   public:
    /// Constructs a shared tensor from a tensor.
    ///
    /// \param tensor   tensor on the device of the space; consumed on success
    /// \param copy_to  space of copies, and the back end that makes them, which must outlive all copies and leases
    /// \param on       stream on which the tensor is ready
    /// \throws error           errc::device for a tensor of another device; errc::stream; errc::consumed when `tensor`
    ///                         is empty
    /// \throws std::bad_alloc  when an allocation fails
    template <memory_space Space, back_end B>
    shared_tensor(managed_tensor&& tensor, destination<Space, B> const& copy_to, stream_token on = already_ready,
                  std::source_location where = std::source_location::current()) {
        auto core = std::make_shared<detail::spill_core>(copy_to.underneath(), copy_to.space(), spill_options{});
        auto* const made = core->adopt(tensor, on, 0, {"ferry::shared_tensor", where}).value();
        handle_ = {std::move(core), made};
    }
    /// Constructs a shared tensor that can be spilled. Copies are allocated from the space of the manager.
    ///
    /// \param t  tensor of a spill_manager
    explicit shared_tensor(spillable t) noexcept : handle_{std::move(t.handle_)} {}

    /// Shares the memory of another object. While a tensor that `other.write` returned exists, copies the memory
    /// instead, on the stream of that call, after the work that is queued there.
    ///
    /// \param other  shared tensor
    /// \throws error  errors of a copy
    shared_tensor(shared_tensor const& other) : handle_{shared(other.handle_)} {}
    shared_tensor(shared_tensor&&) = default;
    shared_tensor& operator=(shared_tensor other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~shared_tensor() = default;

    /// Begins a lease for reading; see `spillable::read`. A later `write` of this object does not change the result.
    ///
    /// \param on  stream on which the caller uses the tensor
    /// \return    read-only tensor
    /// \throws error  errors of `spillable::read`
    [[nodiscard]] managed_tensor read(stream_token on,
                                      std::source_location where = std::source_location::current()) const {
        return handle_.lend(on, false, {"ferry::shared_tensor::read", where});
    }
    /// Begins a lease for writing, on memory that no other object uses. A copy is queued on `on`, after the last
    /// write, and does not block; without a stream, it is complete on return.
    ///
    /// For a consumer that does not know the flag READ_ONLY, such as one of the legacy struct, pass a tensor that
    /// `write` returned, because `release_legacy` refuses a tensor that `read` returned.
    ///
    /// \param on  stream on which the caller uses the tensor
    /// \return    writable tensor
    /// \throws error  errors of `spillable::write`, and of a copy; this object is then unchanged
    [[nodiscard]] managed_tensor write(stream_token on, std::source_location where = std::source_location::current()) {
        detail::record const call{"ferry::shared_tensor::write", where};
        if (handle_ && !handle_.core().is_alone(handle_.get())) handle_ = handle_.copied(on, call);
        return handle_.lend(on, true, call);
    }

    /// Begins a lease for an import; see `spillable::ferry_export`.
    ///
    /// \param r  request
    /// \return   read-only tensor on its device
    /// \throws error  errors of `read`
    [[nodiscard]] managed_tensor ferry_export(request const& r,
                                              std::source_location where = std::source_location::current()) const {
        return handle_.lend_to(r, {"ferry::shared_tensor", where});
    }

   private:
    [[nodiscard]] static detail::allocation_handle shared(detail::allocation_handle const& other) {
        stream_token on;
        if (!other || !other.core().is_written(other.get(), on)) return other;
        return other.copied(on, {"ferry::shared_tensor", {}});
    }

    detail::allocation_handle handle_;
};

}  // namespace FERRY_NAMESPACE
