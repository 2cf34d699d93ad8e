// ferry: handles of tensors that may leave the device, and leases, which keep them there.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/lease/detail/spill_core.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <memory>  // handles and leases share the state of a manager
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// The owner in the struct of a leased tensor. The lease ends when the deleter runs.
class lease {
   public:
    lease(std::shared_ptr<spill_core> core, allocation& a, stream_token on, bool writes) noexcept
        : core_{std::move(core)}, allocation_{&a}, use_{on, writes, this_thread()} {}
    lease(lease&& other) noexcept
        : core_{std::move(other.core_)},
          allocation_{std::exchange(other.allocation_, nullptr)},
          use_{std::move(other.use_)} {}
    lease& operator=(lease&&) = delete;
    ~lease() {
        if (allocation_ != nullptr) core_->end(*allocation_, use_);
    }
    void add(stream_token on) {
        if (on != use_.on) use_.others.push_back(on);
    }
    [[nodiscard]] device where() const noexcept { return core_->device(); }

   private:
    std::shared_ptr<spill_core> core_;
    allocation* allocation_;
    lease_use use_;
};

/// A reference to an allocation of a core, which counts as a handle.
class allocation_handle {
   public:
    allocation_handle() = default;
    allocation_handle(std::shared_ptr<spill_core> core, allocation* a) noexcept
        : core_{std::move(core)}, allocation_{a} {}
    allocation_handle(allocation_handle const& other) noexcept : core_{other.core_}, allocation_{other.allocation_} {
        if (allocation_ != nullptr) core_->hold(*allocation_);
    }
    allocation_handle(allocation_handle&& other) noexcept
        : core_{std::move(other.core_)}, allocation_{std::exchange(other.allocation_, nullptr)} {}
    allocation_handle& operator=(allocation_handle other) noexcept {
        std::swap(core_, other.core_);
        std::swap(allocation_, other.allocation_);
        return *this;
    }
    ~allocation_handle() {
        if (allocation_ != nullptr) core_->drop(*allocation_);
    }

    [[nodiscard]] spill_core& core() const noexcept { return *core_; }
    [[nodiscard]] allocation& get() const noexcept { return *allocation_; }
    [[nodiscard]] explicit operator bool() const noexcept { return allocation_ != nullptr; }

    /// Begins a lease, and returns the tensor that ends it.
    [[nodiscard]] managed_tensor lend(stream_token on, bool writes, record const& call) const {
        reporter const r{call.api, call.where};
        if (allocation_ == nullptr) static_cast<void>(report_empty(r));
        core_->begin(*allocation_, on, writes, call).value();
        lease owner{core_, *allocation_, on, writes};
        auto const& a = *allocation_;
        auto const bits = writes ? a.layout.flags() : a.layout.flags() | flags::read_only;
        auto const view = a.view(a.base, core_->device(), bits);
        return own(std::move(owner), view, flags::none, version::current, r);
    }

    /// Begins a lease for the consumer of an import, which expects the tensor on the stream of its request, or on the
    /// default stream of the device (R44, R48).
    [[nodiscard]] managed_tensor lend_to(request const& r, record const& call) const {
        auto const d = allocation_ != nullptr ? core_->device() : cpu;
        auto const on = r.stream;
        bool const is_asked = on.is_no_sync() || (on.names_stream() && orders(on.family(), d.type));
        return lend(is_asked ? on : default_stream(d), false, call);
    }

    /// Returns a handle of a copy, which is queued on `on`, after the last write.
    [[nodiscard]] allocation_handle copied(stream_token on, record const& call) const {
        core_->begin(*allocation_, on, false, call).value();
        lease const source{core_, *allocation_, on, false};  // ends behind the copy
        return {core_, core_->duplicate(*allocation_, on).value()};
    }

   private:
    std::shared_ptr<spill_core> core_;
    allocation* allocation_ = nullptr;
};

}  // namespace detail

/// A handle of a tensor of a spill_manager. Copies are handles of the same tensor, whose memory is freed with the last
/// handle and lease. Different handles may be used by different threads concurrently; calls wait for a spill of the
/// tensor in progress.
class spillable {
   public:
    /// Constructs an empty handle, as after a move.
    spillable() = default;

    /// Returns whether this is the handle of a tensor.
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

    /// Begins a lease for reading, and brings the tensor back to the device if it had been spilled.
    ///
    /// The lease ends when the result, or what it was exported as, is destroyed; until then, the tensor does not move.
    /// Work that is queued on `on` by then is complete before the memory is spilled or freed. Blocks for a copy to the
    /// device, and, without a stream, for the last write; otherwise `on` waits for the last write.
    ///
    /// \param on  stream on which the caller uses the tensor. With `already_ready`, the caller orders its work, and
    ///            completes it before the lease ends. Without a stream, the host waits
    /// \return    read-only tensor
    /// \throws error  errc::consumed when the handle is empty or the manager was destroyed; errc::stream for a stream
    ///                of another device; errc::out_of_memory and busy when there is no room on the device; errors of
    ///                the back end
    [[nodiscard]] managed_tensor read(stream_token on,
                                      std::source_location where = std::source_location::current()) const {
        return handle_.lend(on, false, {"ferry::spillable::read", where});
    }
    /// Begins a lease for writing, as `read` does; `on` also waits for earlier reads on other streams.
    ///
    /// \param on  stream on which the caller uses the tensor; see `read`
    /// \return    writable tensor
    /// \throws error  errc::read_only for a read-only tensor; errors of `read`
    [[nodiscard]] managed_tensor write(stream_token on,
                                       std::source_location where = std::source_location::current()) const {
        return handle_.lend(on, true, {"ferry::spillable::write", where});
    }
    /// Begins a lease for an import, such as `from_dlpack<Consumer>(t, {.stream = s}, back_end)`, which calls this
    /// function. After the lease has ended, the memory is spilled or freed only after the work that was queued by then
    /// on the stream of the request, or on the default stream.
    ///
    /// \param r  request
    /// \return   read-only tensor on its device
    /// \throws error  errors of `read`
    [[nodiscard]] managed_tensor ferry_export(request const& r,
                                              std::source_location where = std::source_location::current()) const {
        return handle_.lend_to(r, {"ferry::spillable", where});
    }

   private:
    friend class spill_manager;
    friend class shared_tensor;
    spillable(std::shared_ptr<detail::spill_core> core, detail::allocation* a) noexcept : handle_{std::move(core), a} {}

    detail::allocation_handle handle_;
};

/// Adds a stream to a lease, for example that of a consumer to which its tensor is exported. Work that is queued on the
/// stream when the lease ends is complete before the memory is spilled or freed.
///
/// \param leased  tensor that `read` or `write` returned
/// \param on      stream of the device of the tensor
/// \throws error           errc::argument when the tensor is no lease; errc::stream for a stream of another device
/// \throws std::bad_alloc  when an allocation fails
inline void used_on(managed_tensor const& leased, stream_token on,
                    std::source_location where = std::source_location::current()) {
    detail::reporter const r{"ferry::used_on", where};
    using block = detail::block<DLManagedTensorVersioned, detail::lease>;
    auto const* const raw = leased.get();
    if (raw == nullptr || raw->deleter != &block::destroy)
        static_cast<void>(report(r, errc::argument,
                                 "the tensor is no lease: pass the result of read or write of a spillable or a "
                                 "shared_tensor"));
    auto& owner = static_cast<block*>(raw->manager_ctx)->owner;
    static_cast<void>(detail::check_stream(on, owner.where(), r));
    owner.add(on);
}

}  // namespace FERRY_NAMESPACE
