// ferry: the interface of back ends, which allocate, copy and wait on devices.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/host_copy.hpp>

#include <optional>

namespace FERRY_NAMESPACE {

/// Owner of memory that a back end allocated. Movable. `data()` returns the address. The destructor releases the memory
/// and may run on any thread, even after the shutdown of the back end's SDK.
template <class M>
concept owned_memory = std::move_constructible<M> && requires(M const& m) {
    { m.data() } -> std::convertible_to<void*>;
};

/// The device operations that an exchange requires (D9). A back end need not own resources or support more than one
/// device.
///
/// An operation that fails throws or returns an error. All operations except `reaches`, the optional ones included, may
/// return `result<R>` instead of R. When exceptions are disabled (-fno-exceptions), operations that can fail must
/// return `result<R>`. ferry calls operations through `detail::perform` and `detail::call`, which report both kinds of
/// error.
///
/// - `reaches(device)`: returns whether the back end can allocate on the device and copy to and from it.
/// - `allocate(device, bytes, on)`: returns memory aligned to at least 64 bytes, for work queued on `on`.
/// - `copy(plan, dst, to, src, from, on)`: queues the copy on `on` or, if `on` names no stream, completes it before
///   returning. On return, source memory of type cpu may be reused; the destination is complete when the work queued on
///   `on` has completed. May return a bool: true means that the copy is complete. On failure, nothing is queued.
/// - `order(from, to)`: makes later work on `to` wait for all work that is already queued on `from`. Does not block the
///   host.
/// - `wait(on)`: blocks the host until the work queued on `on` has completed; never synchronises an entire device. Even
///   if it fails, no work queued on `on` runs after the call, so that the caller can free the memory that the work
///   uses.
template <class B>
concept back_end =
    requires(B& b, ferry::device d, std::size_t n, stream_token on, copy_plan const& plan, void* dst, void const* src) {
        { b.reaches(d) } -> std::same_as<bool>;
        requires owned_memory<detail::value_of<decltype(b.allocate(d, n, on))>>;
        b.copy(plan, dst, d, src, d, on);
        b.order(on, on);
        b.wait(on);
    };

/// A back end that can wait for queued work when an object is destroyed.
///
/// `mark(on)` returns an object whose destructor blocks until the work that was queued on `on` at the time of the call
/// has completed. The destructor may run on any thread, even after the shutdown of the back end's SDK. A
/// default-constructed object does not wait. An exchange stores such an object with each copy that it queues, so that
/// the release of an incomplete copy does not free memory in use. Without `mark`, the consumer must wait for the copy
/// before it releases the tensor (R50), even if it did not use the data.
template <class B>
concept marking_back_end = back_end<B> && requires(B& b, stream_token on) {
    requires std::movable<detail::value_of<decltype(b.mark(on))>>;
    requires std::default_initializable<detail::value_of<decltype(b.mark(on))>>;
};

/// The back end for pageable host memory. Copies on the calling thread; has no streams. Stateless; thread-safe.
struct host_back_end {
    /// Returns whether a device is the host.
    ///
    /// \param d  device
    /// \return   true for type cpu
    [[nodiscard]] constexpr bool reaches(device d) const noexcept { return d.type == device_type::cpu; }
    /// Allocates host memory.
    ///
    /// \param bytes  size
    /// \return       uninitialised memory, aligned to default_alignment; without exceptions, a result that contains it
    /// \throws std::bad_alloc  when the allocation fails
    [[nodiscard]] auto allocate(device, std::size_t bytes, stream_token) const {
#if FERRY_HAS_EXCEPTIONS
        return buffer<host_space>{bytes};
#else
        return buffer<host_space>::try_allocate(bytes);
#endif
    }
    /// Executes a plan. Blocks until the copy is complete.
    ///
    /// \param plan  copy plan
    /// \param dst   destination
    /// \param src   source
    /// \return      true: the copy is complete
    bool copy(copy_plan const& plan, void* dst, device, void const* src, device, stream_token) const noexcept {
        copy_on_host(plan, dst, src);
        return true;
    }
    /// Does nothing, because there are no streams.
    void order(stream_token, stream_token) const noexcept {}
    /// Does nothing, because no work is queued.
    void wait(stream_token) const noexcept {}
};

/// The default back end of exchanges.
inline constexpr host_back_end host_only{};

namespace detail {

/// `share_only`, or a back end that forwards to it.
template <class B>
concept never_copies = requires { requires B::never_copies; };

}  // namespace detail

/// Type of `share_only`.
struct share_only_back_end : host_back_end {
    static constexpr bool never_copies = true;  ///< exchanges through this back end contain no code for copies
};
/// A back end for exchanges and shares that never copy. They throw errc::copy_needed if a copy is required, and the
/// compiler generates no code for the copies of exchanges. Functions that copy columns treat it as `host_only`.
inline constexpr share_only_back_end share_only{};

namespace detail {

/// Searches a back end and those underneath it for the first one that has certain operations. `Has::of<B>` is whether
/// the type B has the operations. Returns null if none has them.
template <class Has, class B>
[[nodiscard]] constexpr auto* find_operations([[maybe_unused]] B& b) noexcept {
    if constexpr (Has::template of<B>) return &b;
    else if constexpr (requires { b.underneath(); }) return find_operations<Has>(b.underneath());
    else return static_cast<void*>(nullptr);
}
template <class Has, class B>
using operations_found = std::remove_pointer_t<decltype(find_operations<Has>(std::declval<B&>()))>;

/// Back ends that allocate from a space of the caller. `locate(v, space, is_inside)` sets the device of the space, and
/// whether the space contains the elements of `v`.
struct locates {
    template <class B>
    static constexpr bool of = requires(B& b, tensor_view const& v, std::optional<device>& space, bool& is_inside) {
        b.locate(v, space, is_inside);
    };
};
template <class B>
inline constexpr bool has_space = !std::is_void_v<operations_found<locates, B>>;

/// Base class of back ends that change some operations of another back end. Forwards the operations of `back_end`;
/// other operations are found through `underneath`. Stores a pointer to the other back end; as thread-safe as it.
template <back_end BackEnd>
class changed_back_end {
   public:
    static constexpr bool never_copies = detail::never_copies<BackEnd>;

    constexpr explicit changed_back_end(BackEnd& underneath) noexcept : underneath_{&underneath} {}

    [[nodiscard]] constexpr BackEnd& underneath() const noexcept { return *underneath_; }
    [[nodiscard]] bool reaches(device d) const { return underneath_->reaches(d); }
    [[nodiscard]] auto allocate(device d, std::size_t bytes, stream_token on) const {
        return underneath_->allocate(d, bytes, on);
    }
    decltype(auto) copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                        stream_token on) const {
        return underneath_->copy(plan, dst, to, src, from, on);
    }
    decltype(auto) order(stream_token from, stream_token to) const { return underneath_->order(from, to); }
    decltype(auto) wait(stream_token on) const { return underneath_->wait(on); }
    [[nodiscard]] auto mark(stream_token on) const
        requires marking_back_end<BackEnd>
    {
        return underneath_->mark(on);
    }

   private:
    BackEnd* underneath_;
};

}  // namespace detail

/// A back end that allocates from a memory space of the caller (D9) and forwards copies, ordering and waits to another
/// back end. With placement::exact, the result of an exchange lies in this space. Stores a copy of the space, which is
/// a handle, and a pointer to the back end. As thread-safe as both.
template <memory_space Space, back_end BackEnd = host_back_end const>
class destination : public detail::changed_back_end<BackEnd> {
   public:
    /// Constructs a back end from a memory space and another back end.
    ///
    /// \param space       memory space for allocations
    /// \param underneath  back end for copies, ordering and waits; must outlive this object
    constexpr explicit destination(Space space, BackEnd& underneath = host_only)
        : detail::changed_back_end<BackEnd>{underneath}, space_{std::move(space)} {}

    /// Returns whether a device is supported.
    ///
    /// \param d  device
    /// \return   true for the space's device when it is host-accessible, and for devices of the other back end
    [[nodiscard]] bool reaches(device d) const {
        return (is_host_accessible(d) && is_same_device(d, space_.device())) || this->underneath().reaches(d);
    }
    /// Allocates memory from the space. Exceptions from the space propagate.
    ///
    /// \param d      device of the result: that of the space, cpu for a host-accessible space, or CUDA for managed
    ///               memory (R39)
    /// \param bytes  size
    /// \return       memory from the space; without exceptions, a result that contains it
    /// \throws error  errc::device for another device; errc::out_of_memory when the space returns null
    [[nodiscard]] auto allocate(device d, std::size_t bytes, stream_token) const {
#if FERRY_HAS_EXCEPTIONS
        static_cast<void>(check_device(d, {"ferry::destination", std::source_location::current()}));
        return buffer<Space>{bytes, space_};
#else
        detail::record to{"ferry::destination", std::source_location::current()};
        if (!check_device(d, to)) return result<buffer<Space>>{to.outcome.error()};
        return buffer<Space>::try_allocate(bytes, space_);
#endif
    }
    /// Returns the space.
    [[nodiscard]] constexpr Space const& space() const noexcept { return space_; }
    /// Sets the device of the space, and whether the space contains a tensor (`containing_space`). An exception of the
    /// space counts as false.
    ///
    /// \param v          tensor; without elements, it lies in every space
    /// \param space      set to the device of the space
    /// \param is_inside  set to whether the space contains the elements of `v`
    void locate(tensor_view const& v, std::optional<device>& space, bool& is_inside) const noexcept {
        space = space_.device();
        detail::record ignored{"", {}};
        is_inside = detail::check_view(v, ignored) && v.is_empty();
        if constexpr (containing_space<Space>)
            if (ignored.outcome && !is_inside) detail::ignore_exceptions([&] { is_inside = space_.contains(v); });
    }

   private:
    [[nodiscard]] bool check_device(device d, detail::reporter r) const {
        if (detail::is_reachable_as(space_.device(), d)) return true;
        return report(r, errc::device,
                      message{"the result is requested on "} << name(d.type) << ", expected "
                                                             << name(space_.device().type)
                                                             << ", the space's device: request that device");
    }

    Space space_;
};

}  // namespace FERRY_NAMESPACE
