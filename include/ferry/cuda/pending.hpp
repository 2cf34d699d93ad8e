// ferry: copies that the host does not wait for.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/exchange/order.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <optional>
#include <source_location>
#include <utility>

namespace ferry::inline v0::cuda {

/// Something that a stream is still making, and what it is made from: both stay until the work has run. Dropped before,
/// it waits. Move-only; one object as any value.
template <class T>
class pending {
   public:
    /// `done` was recorded on `on` behind the work.
    pending(T made, managed_tensor source, event done, stream_token on) noexcept
        // mutant: cuda_pending_source
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
        if (done_) detail::wait_to_release(done_->get());  // mutant: cuda_pending_drop
    }

    /// Whether the work has run. Does not block. \throws error  what the event reports
    [[nodiscard]] bool is_ready() const { return !done_ || done_->is_done(); }
    /// Waits, for this work alone, and hands the result over.
    /// \throws error  errc::consumed when it was handed over already; what the event reports, and then it stays
    [[nodiscard]] T get() {
        if (!done_)
            ferry::detail::fail(errc::consumed, "ferry::cuda::pending::get",
                                message{"the result was handed over already, or moved"});
        done_->wait();  // mutant: cuda_pending_get
        done_.reset();
        source_ = {};
        return std::move(made_);
    }
    /// The stream that the work is on: what is queued there later runs after it.
    [[nodiscard]] stream_token token() const noexcept { return on_; }
    /// What is being made, for work that is queued on `token()`.
    [[nodiscard]] T const& peek() const& noexcept { return made_; }

   private:
    T made_;
    managed_tensor source_;
    std::optional<event> done_;
    stream_token on_;
};

/// Copies a tensor to `to` without blocking the host: a GPU, pinned memory (type 3) or managed memory (type 13), which
/// the host reads once the result is handed over (R48). Queued on `on`, or where `ready_on` says when `on` is not
/// given, after all that is queued on `ready_on` now, which must be of the source's device. The copy is compact,
/// writable and flagged is_copied (R12); its memory is the back end's.
///
/// Owns `source` on success, until the copy has run; on failure it is still the caller's and nothing is queued.
/// \throws error  errc::device for ordinary memory, which only `to_host` fills; errc::stream, consumed, capturing; what
///                the back end reports
template <back_end BackEnd>
[[nodiscard]] pending<managed_tensor> copy_async(managed_tensor&& source, device to, BackEnd& b, stream_token ready_on,
                                                 stream_token on = {},
                                                 std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::cuda::copy_async";
    if (!source)
        ferry::detail::fail(errc::consumed, api,
                            message{"the managed_tensor holds nothing: it was moved from or released"}, where);
    if (!uses_cuda_streams(to.type))
        ferry::detail::fail(
            errc::device, api,
            message{"no stream copies to "}
                << name(to.type)
                << " memory without the host: ask for cuda_host, which the host reads, or call ferry::to_host",
            where);
    ready_on = ready_on.bound_to(source.device());  // mutant: cuda_pending_device
    on = on.names_stream() ? on.on_device(to) : ready_on;
    if (!on.names_stream())
        ferry::detail::fail(errc::stream, api, message{"the copy is queued on a stream: name one"}, where);
    detail::require_stream(on, api);
    tensor_view const from = source.view();
    ferry::detail::require_reach(b, from.device(), api, where);
    ferry::detail::require_reach(b, to, api, where);
    tensor_view const sized{static_cast<void*>(nullptr),         from.dtype(), from.shape(), {}, to,
                            from.flags() & flags::subbyte_padded};
    device_guard const current{detail::device_of(on, api)};
    detail::require_free_default(on, api);
    event done;
    auto memory = b.allocate(to, static_cast<std::size_t>(sized.nbytes()), on);
    auto const view_of_memory = [&](auto& m) {
        return tensor_view{static_cast<void*>(m.data()), from.dtype(), from.shape(), {}, to, sized.flags()};
    };
    managed_tensor made;
    ferry::detail::stream_memory_guard behind{b, on, to};
    made = make_managed(std::move(memory), view_of_memory, flags::is_copied, version::current, where);
    if (!from.is_empty()) {
        auto const& dst = made.view();
        auto const plan = make_copy_plan(
            tensor_view{dst.data(), dst.dtype(), dst.shape(), dst.strides(), to, sized.flags()}, from, api, where);
        ferry::order(ready_on, on, b);  // mutant: cuda_pending_order
        ferry::detail::queue_copy(b, plan, dst.data(), to, from.data(), from.device(), on);
    }
    behind.done();
    try {
        done.record(detail::handle_of(on));
    } catch (...) {
        detail::beside_captures const quietly;
        // mutant: cuda_pending_failed
        detail::ignore(cudaStreamSynchronize(detail::handle_of(on)));  // else the queued copy would write freed memory
        throw;
    }
    return {std::move(made), std::move(source), std::move(done), on};
}

}  // namespace ferry::inline v0::cuda
