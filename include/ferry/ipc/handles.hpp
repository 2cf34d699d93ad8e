// ferry: the interface of back ends that share device memory by handles, and a reference to one of any type.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/detail/any_owner.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/wire/descriptor.hpp>

#include <concepts>
#include <memory>  // owns the memory that a back end opens
#include <optional>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::ipc {

/// Size of the handle of an event, in descriptors and in control pages, in bytes.
inline constexpr std::size_t event_handle_bytes = 64;
/// Handle of an event, as its driver writes it.
using event_handle = std::array<std::byte, event_handle_bytes>;

/// Parameters for opening memory, in addition to its description.
struct opening {
    /// Device on which to open the memory; if empty, the device with the UUID in the description.
    std::optional<ferry::device> where{};
    /// File descriptor received with the descriptor, of a pool or an anonymous segment, or -1. Borrowed for the call.
    int file = -1;
};

/// State that a back end keeps in the exporting process while an importer may use the memory, such as the ready event.
/// It does not contain the owner of the memory, which is destroyed later.
///
/// - `description()`: returns the kind, type, device, id, allocation, offset, length, handle and ready event of a
///   wire::memory; ferry writes the name. A later allocation at the same address must have another id (in CUDA, the
///   buffer ID).
/// - `wait_ready(on)`: as for opened_memory, for tensors that the exporting process attaches itself.
/// - `record_ready(on)`: importers that attach the memory after this call wait for all work queued on `on`, instead of
///   the work recorded before; `description().ready` may change. Has no effect with a token that names no stream. Does
///   not block the host, unless no event is free.
/// - `order_after(handle, on)`: work queued on `on` after this call runs after the event; without a stream, the host
///   waits. Returns false when the handle cannot be opened.
template <class E>
concept exported_memory =
    std::move_constructible<E> && requires(E& e, E const& c, event_handle const& done, stream_token on) {
        { c.description() } -> std::convertible_to<wire::memory const&>;
        e.wait_ready(on);
        e.record_ready(on);
        { e.order_after(done, on) } -> ferry::detail::yields<bool>;
    };

/// Memory of another process, opened in this one. The destructor first waits for all work that `record_done` marked,
/// then closes the memory. It may run on any thread, and after the SDK has shut down. An observer that finds the memory
/// closed may therefore assume that the work has completed.
///
/// - `data()`: the first byte of the exported range (not of the allocation).
/// - `device()`: its device, as numbered in this process.
/// - `wait_ready(memory, on)`: work queued on `on` after this call sees the data written before the share
///   (`memory.ready`). With a token that names no stream, the host waits, unless the token is no_sync.
/// - `record_done(on, out)`: marks all work queued on `on` before this call, and writes to `out` the handle of an event
///   that completes after this work and all work marked earlier on any stream, because the exporter sees only the last
///   handle. The memory owns the event until the destructor has waited. Returns false when there was nothing to mark,
///   or the host has waited instead; handles returned earlier remain valid. Called by one thread at a time.
template <class O>
concept opened_memory = std::move_constructible<O> &&
                        requires(O& o, O const& c, wire::memory const& m, stream_token on, event_handle& out) {
                            { c.data() } -> std::convertible_to<void*>;
                            { c.device() } -> std::same_as<ferry::device>;
                            o.wait_ready(m, on);
                            { o.record_done(on, out) } -> ferry::detail::yields<bool>;
                        };

/// A back end that can share its memory with other processes. It need not keep any state, because all state is in the
/// objects that it returns, and in the session. These objects may outlive the back end only if its documentation says
/// so. Its operations, and those of the returned objects except `description`, `data` and `device`, may return
/// `result<R>` instead of R.
///
/// - `exports(device)`: whether this back end shares memory of the device by handles. False for host memory, which is
///   shared in segments.
/// - `export_memory(range, device, ready_on)`: makes the handle, and records an event after all work queued on
///   `ready_on`. Does not block the host, unless no event is free. \throws error  errc::not_exportable when no handle
///   can be made for this memory
/// - `refusal(range, device)`: returns the reason for errc::not_exportable, a clause such as `it comes from a
///   stream-ordered pool`; null for memory that `export_memory` exports. Called only after that error.
/// - `allocate_exportable(device, bytes, on)`: allocates memory that `export_memory` exports, for copies.
/// - `opens(memory)`: whether this back end opens memory of such a description.
/// - `open_memory(memory, opening)`: opens it. \throws error  errc::stale_handle, device_not_found, no_peer_access,
///   already_mapped, same_process, no_driver, out_of_range, permission
///
/// Optional; without it, memory that was attached is copied when it is shared again:
///
/// - `pass_on(memory, ready_on)`: as `export_memory`, for memory that this process has opened with this description.
///   The new description differs only in the event. Called only if `passes_on(memory)` is true.
template <class B>
concept handle_back_end = back_end<B> && requires(B& b, ferry::device d, byte_range const& r, std::size_t n,
                                                  stream_token on, wire::memory const& m, opening const& o) {
    { b.exports(d) } -> ferry::detail::yields<bool>;
    requires std::convertible_to<ferry::detail::value_of<decltype(b.refusal(r, d))>, char const*>;
    requires owned_memory<ferry::detail::value_of<decltype(b.allocate_exportable(d, n, on))>>;
    requires exported_memory<ferry::detail::value_of<decltype(b.export_memory(r, d, on))>>;
    { b.opens(m) } -> ferry::detail::yields<bool>;
    requires opened_memory<ferry::detail::value_of<decltype(b.open_memory(m, o))>>;
};

namespace detail {

template <class B>
concept passing_back_end = requires(B& b, wire::memory const& m, stream_token on) {
    { b.passes_on(m) } -> ferry::detail::yields<bool>;
    requires exported_memory<ferry::detail::value_of<decltype(b.pass_on(m, on))>>;
};

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

/// The operations of a handle_back_end of any type, which throw their errors.
struct handle_calls {
    virtual ~handle_calls() = default;
    virtual bool exports(device) = 0;
    virtual char const* refusal(byte_range const&, device) = 0;
    virtual ferry::detail::any_owner allocate_exportable(device, std::size_t bytes, stream_token) = 0;
    virtual std::unique_ptr<exported> export_memory(byte_range const&, device, stream_token ready_on) = 0;
    virtual bool opens(wire::memory const&) = 0;
    virtual std::unique_ptr<opened> open_memory(wire::memory const&, opening const&) = 0;
    virtual bool passes_on(wire::memory const&) = 0;
    virtual std::unique_ptr<exported> pass_on(wire::memory const&, stream_token ready_on) = 0;
};

template <template <class> class Any, class Call>
[[nodiscard]] auto make_any(Call call) {
    auto memory = ferry::detail::call(call);
    return std::make_unique<Any<decltype(memory)>>(std::move(memory));
}

template <handle_back_end B>
struct handle_calls_of final : handle_calls {
    explicit handle_calls_of(B& b) noexcept : its{b} {}
    bool exports(device d) override {
        return ferry::detail::call([&] { return its.exports(d); });
    }
    char const* refusal(byte_range const& r, device d) override {
        return ferry::detail::call([&] { return its.refusal(r, d); });
    }
    ferry::detail::any_owner allocate_exportable(device d, std::size_t bytes, stream_token on) override {
        return ferry::detail::own_result([&] { return its.allocate_exportable(d, bytes, on); }).value();
    }
    std::unique_ptr<exported> export_memory(byte_range const& r, device d, stream_token ready_on) override {
        return make_any<any_exported>([&] { return its.export_memory(r, d, ready_on); });
    }
    bool opens(wire::memory const& m) override {
        return ferry::detail::call([&] { return its.opens(m); });
    }
    std::unique_ptr<opened> open_memory(wire::memory const& m, opening const& how) override {
        return make_any<any_opened>([&] { return its.open_memory(m, how); });
    }
    bool passes_on([[maybe_unused]] wire::memory const& m) override {
        if constexpr (passing_back_end<B>) return ferry::detail::call([&] { return its.passes_on(m); });
        else return false;
    }
    std::unique_ptr<exported> pass_on([[maybe_unused]] wire::memory const& m,
                                      [[maybe_unused]] stream_token ready_on) override {
        if constexpr (passing_back_end<B>) return make_any<any_exported>([&] { return its.pass_on(m, ready_on); });
        else return nullptr;
    }
    B& its;
};

/// Fails to compile for a back end that has only some operations of handle_back_end, because they would be ignored.
template <class B>
[[nodiscard]] consteval bool refuse_near_miss() {
    constexpr bool exports =
        requires(B& b, byte_range const& r, device d, stream_token on) { b.export_memory(r, d, on); };
    constexpr bool opens = requires(B& b, wire::memory const& m, opening const& how) { b.open_memory(m, how); };
    if constexpr (exports)
        static_assert(exported_memory<ferry::detail::value_of<decltype(std::declval<B&>().export_memory(
                          std::declval<byte_range const&>(), device{}, stream_token{}))>>,
                      "ferry: what export_memory of this back end returns is no ferry::ipc::exported_memory: add the "
                      "operation that the compiler names");
    if constexpr (opens)
        static_assert(opened_memory<ferry::detail::value_of<decltype(std::declval<B&>().open_memory(
                          std::declval<wire::memory const&>(), std::declval<opening const&>()))>>,
                      "ferry: what open_memory of this back end returns is no ferry::ipc::opened_memory: add the "
                      "operation that the compiler names");
    if constexpr (exports || opens)
        static_assert(handle_back_end<B>,
                      "ferry: this back end has export_memory or open_memory, and is no "
                      "ferry::ipc::handle_back_end: add the operation that the compiler names");
    return true;
}

struct has_handles {
    template <class B>
    static constexpr bool of = handle_back_end<B> || !refuse_near_miss<B>();
};

}  // namespace detail

/// A reference to a back end of any type, with the operations of `handle_back_end` if the back end has them. Any back
/// end converts to it, including a temporary one for the duration of a call. The back end must outlive the reference.
/// As thread-safe as the back end.
class handle_ref : public back_end_ref {
   public:
    /// References `host_only`.
    handle_ref() = default;
    /// References a back end.
    ///
    /// \param b  back end
    template <class B>
        requires(!std::derived_from<std::remove_cvref_t<B>, handle_ref> && back_end<std::remove_reference_t<B>>)
    constexpr handle_ref(B&& b FERRY_LIFETIME_BOUND) noexcept
        : back_end_ref{b}, never_copies_{ferry::detail::never_copies<std::remove_cvref_t<B>>} {
        using found = ferry::detail::operations_found<detail::has_handles, std::remove_reference_t<B>>;
        if constexpr (!std::is_void_v<found>) {
            sharing_ = const_cast<std::remove_const_t<found>*>(ferry::detail::find_operations<detail::has_handles>(b));
            make_calls_ = [](void* its) -> std::unique_ptr<detail::handle_calls> {
                return std::make_unique<detail::handle_calls_of<found>>(ferry::detail::at<found>(its));
            };
        }
    }

   private:
    /// Returns the operations of handle_back_end; null if the back end has none.
    [[nodiscard]] friend std::unique_ptr<detail::handle_calls> calls_of(handle_ref const& b) {
        return b.make_calls_ != nullptr ? b.make_calls_(b.sharing_) : nullptr;
    }
    /// Returns whether the back end is `share_only`.
    [[nodiscard]] friend bool never_copies(handle_ref const& b) noexcept { return b.never_copies_; }

    bool never_copies_ = false;
    void* sharing_ = nullptr;
    std::unique_ptr<detail::handle_calls> (*make_calls_)(void*) = nullptr;
};

}  // namespace FERRY_NAMESPACE::ipc
