// ferry: asynchronous copies.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <optional>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// Owns the result of queued work, and the tensor that the work reads. `get` waits for the work, then transfers the
/// result and releases the tensor. The destructor also waits for the work. Move-only; not thread-safe.
template <class T>
class pending {
   public:
    /// Takes ownership of a result and its source.
    ///
    /// \param made    result, which the work writes
    /// \param source  tensor that the work reads
    /// \param done    event recorded on `on` after the work
    /// \param on      stream of the work
    pending(T made, managed_tensor source, event done, stream_token on) noexcept
        : made_{std::move(made)}, source_{std::move(source)}, done_{std::move(done)}, on_{on} {}
    pending(pending&& other) noexcept
        : made_{std::move(other.made_)},
          source_{std::move(other.source_)},
          done_{std::exchange(other.done_, std::nullopt)},
          on_{other.on_} {}
    pending& operator=(pending&& other) noexcept {
        std::swap(made_, other.made_);
        std::swap(source_, other.source_);
        std::swap(done_, other.done_);
        std::swap(on_, other.on_);
        return *this;
    }
    ~pending() {
        if (done_) detail::wait_to_release(done_->get());
    }

    /// Returns whether the work has completed. Does not block.
    ///
    /// \throws error  errors of the event
    [[nodiscard]] bool is_ready() const { return !done_ || done_->is_done(); }
    /// Blocks the host until the work has completed, transfers the result to the caller, and releases the source.
    ///
    /// \return  the result
    /// \throws error  errc::consumed when the result has been taken; errors of the event, after which this object still
    ///                owns the result and the source
    [[nodiscard]] T get() {
        if (!done_)
            ferry::detail::fail(errc::consumed, "ferry::cuda::pending::get",
                                message{"the result has been taken or moved from: call get() once"});
        done_->wait();
        done_.reset();
        source_ = {};
        return std::move(made_);
    }
    /// Returns the stream of the work. Work that is queued there later can use the result.
    [[nodiscard]] stream_token token() const noexcept { return on_; }
    /// Returns the result, which only work queued on `token()` may use.
    [[nodiscard]] T const& peek() const& noexcept { return made_; }

   private:
    T made_;
    managed_tensor source_;
    std::optional<event> done_;
    stream_token on_;
};

/// Copies a tensor into device, pinned (cuda_host) or managed (cuda_managed) memory. Does not block the host unless the
/// back end's `copy` does. After `get`, the host may read a copy in pinned or managed memory (R48).
///
/// Queued on `on`, after all work that is already queued on `ready_on`. The copy is row-major, writable and flagged
/// is_copied (R12). On success, the returned object owns `source` until `get` returns or the object is destroyed. On
/// failure, the caller still owns `source`, and no work of the copy is pending.
///
/// \param source    tensor to copy
/// \param to        device of the copy: cuda, cuda_host or cuda_managed
/// \param b         back end; allocates the memory of the copy
/// \param ready_on  stream of the source's device on which `source` is ready
/// \param on        stream of the copy; default: `ready_on`
/// \return          the copy; take it with `get`
/// \throws error           errc::device for other device types (for pageable memory, use `to_host`); errc::stream,
///                         consumed, capturing, no_backend; errors of the back end; errors of CUDA
/// \throws std::bad_alloc  when host memory cannot be allocated
[[nodiscard]] inline pending<managed_tensor> copy_async(managed_tensor&& source, device to, back_end_ref b,
                                                        stream_token ready_on, stream_token on = {},
                                                        std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::cuda::copy_async";
    if (!source)
        ferry::detail::fail(errc::consumed, api,
                            message{"the managed_tensor is empty: it was moved from or released: pass one that holds a "
                                    "tensor"},
                            where);
    if (!uses_cuda_streams(to.type))
        ferry::detail::fail(errc::device, api,
                            message{"an asynchronous copy to "}
                                << name(to.type)
                                << " memory is not supported: request cuda_host memory, or call ferry::to_host",
                            where);
    static_cast<void>(ferry::detail::check_stream(ready_on, source.device(), {api, where}));
    ready_on = ready_on.bound_to(source.device());
    on = on.names_stream() ? on.on_device(to) : ready_on;
    if (!on.names_stream())
        ferry::detail::fail(errc::stream, api, message{"no stream was passed for the copy: pass `on` or `ready_on`"},
                            where);
    static_cast<void>(ferry::detail::check_stream(on, to, source.device(), {api, where}));
    detail::require_stream(on, api);
    tensor_view const from = source.view();
    static_cast<void>(ferry::detail::check_support(b, from.device(), {api, where}));
    static_cast<void>(ferry::detail::check_support(b, to, {api, where}));
    tensor_view const sized{static_cast<void*>(nullptr),         from.dtype(), from.shape(), {}, to,
                            from.flags() & flags::subbyte_padded};
    device_guard const current{detail::device_of(on, api)};
    detail::require_uncaptured_default(on, api);
    event done;
    auto got = b.allocate(to, static_cast<std::size_t>(sized.nbytes()), on);
    static_cast<void>(ferry::detail::check_memory(got, {api, where}));
    auto& memory = ferry::detail::unwrapped(got);
    auto const view_of_memory = [&](auto& m) {
        return tensor_view{static_cast<void*>(m.data()), from.dtype(), from.shape(), {}, to, sized.flags()};
    };
    managed_tensor made;
    ferry::detail::stream_memory_guard behind{b, on, to};
    made = make_managed(std::move(memory), view_of_memory, flags::is_copied, version::current, where);
    if (!from.is_empty()) {
        auto const& dst = made.view();
        auto const plan = make_copy_plan(dst.with_device(to, sized.flags()), from, api, where);
        static_cast<void>(ferry::detail::order_streams(ready_on, on, b, {api, where}));
        ferry::detail::queue_copy(b, plan, dst.writable_data(), to, from.data(), from.device(), on);
    }
    behind.done();
    try {
        done.record(detail::handle_of(on));
    } catch (...) {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaStreamSynchronize(detail::handle_of(on)));  // the copy writes memory that is freed here
        throw;
    }
    return {std::move(made), std::move(source), std::move(done), on};
}

}  // namespace FERRY_NAMESPACE::cuda
