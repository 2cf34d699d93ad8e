// ferry: a reference to a back end of any type that may share its memory by handles.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/detail/any_owner.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/wire/descriptor.hpp>

#include <concepts>
#include <cstddef>
#include <memory>  // see detail/region.hpp
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

/// An exported_memory or opened_memory of any type, whose operations throw their errors.
struct exported {
    virtual ~exported() = default;
    [[nodiscard]] virtual wire::memory const& description() const = 0;
    virtual void wait_ready(stream_token) = 0;
    virtual void record_ready(stream_token) = 0;
    virtual bool order_after(event_handle const&, stream_token) = 0;
};
struct opened {
    virtual ~opened() = default;
    [[nodiscard]] virtual void* data() const = 0;
    [[nodiscard]] virtual ferry::device device() const = 0;
    virtual void wait_ready(wire::memory const&, stream_token) = 0;
    virtual bool record_done(stream_token, event_handle&) = 0;
};
template <exported_memory E>
struct any_exported final : exported {
    explicit any_exported(E&& e) : memory{std::move(e)} {}
    [[nodiscard]] wire::memory const& description() const override { return memory.description(); }
    void wait_ready(stream_token on) override {
        ferry::detail::call([&] { return memory.wait_ready(on); });
    }
    void record_ready(stream_token on) override {
        ferry::detail::call([&] { return memory.record_ready(on); });
    }
    bool order_after(event_handle const& done, stream_token on) override {
        return ferry::detail::call([&] { return memory.order_after(done, on); });
    }
    E memory;
};
template <opened_memory O>
struct any_opened final : opened {
    explicit any_opened(O&& o) : memory{std::move(o)} {}
    [[nodiscard]] void* data() const override { return memory.data(); }
    [[nodiscard]] ferry::device device() const override { return memory.device(); }
    void wait_ready(wire::memory const& m, stream_token on) override {
        ferry::detail::call([&] { return memory.wait_ready(m, on); });
    }
    bool record_done(stream_token on, event_handle& out) override {
        return ferry::detail::call([&] { return memory.record_done(on, out); });
    }
    O memory;
};

/// The operations of a handle_back_end of one type. `passes_on` and `pass_on` are null if it has none.
struct handle_operations {
    bool (*exports)(void*, device);
    char const* (*refusal)(void*, byte_range const&, device);
    ferry::detail::any_owner (*allocate_exportable)(void*, device, std::size_t, stream_token);
    std::unique_ptr<exported> (*export_memory)(void*, byte_range const&, device, stream_token);
    bool (*opens)(void*, wire::memory const&);
    std::unique_ptr<opened> (*open_memory)(void*, wire::memory const&, opening const&);
    bool (*passes_on)(void*, wire::memory const&);
    std::unique_ptr<exported> (*pass_on)(void*, wire::memory const&, stream_token);
};

template <template <class> class Any, class Call>
[[nodiscard]] auto make_any(Call call) {
    auto memory = ferry::detail::call(call);
    return std::make_unique<Any<decltype(memory)>>(std::move(memory));
}

template <handle_back_end B>
[[nodiscard]] constexpr handle_operations make_handle_operations() noexcept {
    using ferry::detail::call;
    handle_operations made{
        [](void* b, device d) { return call([&] { return ferry::detail::at<B>(b).exports(d); }); },
        [](void* b, byte_range const& r, device d) -> char const* {
            return call([&] { return ferry::detail::at<B>(b).refusal(r, d); });
        },
        [](void* b, device d, std::size_t bytes, stream_token on) {
            return ferry::detail::own_result([&] { return ferry::detail::at<B>(b).allocate_exportable(d, bytes, on); })
                .value();
        },
        [](void* b, byte_range const& r, device d, stream_token on) -> std::unique_ptr<exported> {
            return make_any<any_exported>([&] { return ferry::detail::at<B>(b).export_memory(r, d, on); });
        },
        [](void* b, wire::memory const& m) { return call([&] { return ferry::detail::at<B>(b).opens(m); }); },
        [](void* b, wire::memory const& m, opening const& how) -> std::unique_ptr<opened> {
            return make_any<any_opened>([&] { return ferry::detail::at<B>(b).open_memory(m, how); });
        },
        nullptr,
        nullptr};
    if constexpr (passing_back_end<B>) {
        made.passes_on = [](void* b, wire::memory const& m) {
            return call([&] { return ferry::detail::at<B>(b).passes_on(m); });
        };
        made.pass_on = [](void* b, wire::memory const& m, stream_token on) -> std::unique_ptr<exported> {
            return make_any<any_exported>([&] { return ferry::detail::at<B>(b).pass_on(m, on); });
        };
    }
    return made;
}
template <handle_back_end B>
FERRY_HIDDEN inline constexpr handle_operations handle_operations_of = make_handle_operations<B>();

struct has_handles {
    template <class B>
    static constexpr bool of = handle_back_end<B>;
};

}  // namespace detail

/// A reference to a back end of any type, with the operations of `handle_back_end` if it has them. Any back end
/// converts to it, also a temporary one for the duration of a call. As thread-safe as the back end, which must outlive
/// it.
class handle_ref : public back_end_ref {
   public:
    /// References `host_only`.
    handle_ref() = default;
    /// References a back end.
    ///
    /// \param b  back end
    template <class B>
        requires(!std::derived_from<std::remove_cvref_t<B>, handle_ref> && back_end<std::remove_reference_t<B>>)
    constexpr handle_ref(B&& b FERRY_LIFETIME_BOUND) noexcept : back_end_ref{b} {
        using found = ferry::detail::operations_found<detail::has_handles, std::remove_reference_t<B>>;
        if constexpr (!std::is_void_v<found>) {
            sharing_ = const_cast<std::remove_const_t<found>*>(ferry::detail::find_operations<detail::has_handles>(b));
            operations_ = &detail::handle_operations_of<found>;
        }
    }

   protected:
    void* sharing_ = nullptr;
    detail::handle_operations const* operations_ = nullptr;
};

namespace detail {

/// Calls the operations of handle_back_end. A back end without them exports, opens and passes on nothing; the others
/// are called only for what it does.
struct handle_calls : handle_ref {
    explicit handle_calls(handle_ref b) noexcept : handle_ref{b} {}
    [[nodiscard]] bool exports(device d) const { return operations_ != nullptr && operations_->exports(sharing_, d); }
    [[nodiscard]] char const* refusal(byte_range const& r, device d) const {
        return operations_->refusal(sharing_, r, d);
    }
    [[nodiscard]] ferry::detail::any_owner allocate_exportable(device d, std::size_t bytes, stream_token on) const {
        return operations_->allocate_exportable(sharing_, d, bytes, on);
    }
    [[nodiscard]] std::unique_ptr<exported> export_memory(byte_range const& r, device d, stream_token ready_on) const {
        return operations_->export_memory(sharing_, r, d, ready_on);
    }
    [[nodiscard]] bool opens(wire::memory const& m) const {
        return operations_ != nullptr && operations_->opens(sharing_, m);
    }
    [[nodiscard]] std::unique_ptr<opened> open_memory(wire::memory const& m, opening const& how) const {
        return operations_->open_memory(sharing_, m, how);
    }
    [[nodiscard]] bool passes_on(wire::memory const& m) const {
        return operations_->passes_on != nullptr && operations_->passes_on(sharing_, m);
    }
    [[nodiscard]] std::unique_ptr<exported> pass_on(wire::memory const& m, stream_token ready_on) const {
        return operations_->pass_on(sharing_, m, ready_on);
    }
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::ipc
