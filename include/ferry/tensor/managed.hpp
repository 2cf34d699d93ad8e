// ferry: an owning tensor.
#pragma once

#include <ferry/tensor/as.hpp>
#include <ferry/tensor/detail/make_raw.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

struct trusted;

/// Copies a struct field by field. Compilers would combine the loads of two fields. If a producer has just stored these
/// fields one by one, such a load waits until the stores are complete.
[[nodiscard]] FERRY_ALWAYS_INLINE DLTensor loaded(DLTensor const& t) noexcept {
    auto* data = t.data;
    auto *shape = t.shape, *strides = t.strides;
    auto offset = t.byte_offset;
    FERRY_KEEP_LOADED(data, r);
    FERRY_KEEP_LOADED(shape, r);
    FERRY_KEEP_LOADED(strides, r);
    FERRY_KEEP_LOADED(offset, r);
    return {data, t.device, t.ndim, t.dtype, shape, strides, offset};
}

/// Fails with errc::consumed for an empty managed_tensor.
[[nodiscard]] inline bool check_not_empty(managed_tensor const& tensor, reporter r);

}  // namespace detail

/// Owner of a validated DLManagedTensorVersioned.
///
/// Move-only; the destructor calls the deleter (R6, R68). Copies the fields of the DLTensor, the flags and the version,
/// so that later changes to the struct have no effect, and never writes to the struct (R33). The lists of extents and
/// strides belong to the producer, which must not change them (R7).
///
/// Threads may use different objects concurrently, but not the same object. The deleter runs on the thread that
/// destroys the object (R65); asynchronous work of the consumer must be complete by then (R50).
class managed_tensor {
   public:
    /// Constructs an empty object, as after a move or a release.
    managed_tensor() = default;
    managed_tensor(managed_tensor&& other) noexcept
        : raw_{std::exchange(other.raw_, nullptr)}, tensor_{detail::loaded(other.tensor_)}, facts_{other.facts_} {}
    managed_tensor& operator=(managed_tensor&& other) noexcept {
        auto* const moved = std::exchange(other.raw_, nullptr);
        auto* const replaced = std::exchange(raw_, moved);  // null in a self-assignment, which keeps the tensor
        tensor_ = detail::loaded(other.tensor_);
        facts_ = other.facts_;
        detail::raw_owner<DLManagedTensorVersioned> const released{replaced};  // last: a deleter may use this object
        return *this;
    }
    ~managed_tensor() {
        if (raw_ != nullptr && raw_->deleter != nullptr) raw_->deleter(raw_);  // R5: the deleter may be NULL
    }

    /// Returns whether this object owns a tensor.
    [[nodiscard]] explicit operator bool() const noexcept { return raw_ != nullptr; }

    /// Returns a view of the tensor.
    ///
    /// \return       view, valid until the tensor is destroyed; `try_view` returns the view or the error
    /// \throws error  errc::consumed when empty
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] tensor_view view(std::source_location where = std::source_location::current()) const& {
        static_cast<void>(detail::check_not_empty(*this, {"ferry::managed_tensor::view", where}));
        return view_unchecked();
    }
#endif
    [[nodiscard]] result<tensor_view> try_view(std::source_location where = std::source_location::current()) const&;
    // clang-format off
    FERRY_DELETED_BOTH(view, try_view, (std::source_location = {}) const&&, "the view would outlive the tensor: store the managed_tensor in a variable", inline);
    // clang-format on

    /// Checks the tensor as ferry::as does, and returns a typed view.
    ///
    /// \return       typed view; `try_as` returns the typed view or the error
    /// \throws error  errors of ferry::as; errc::consumed when empty
#if FERRY_HAS_EXCEPTIONS
    template <element T, int Rank = dynamic_rank, access_from Access = access_from::host,
              layout Layout = layout::strided>
    [[nodiscard]] auto as(std::source_location where = std::source_location::current()) const& {
        static_cast<void>(detail::check_not_empty(*this, {"ferry::managed_tensor::as", where}));
        return ferry::as<T, Rank, Access, Layout>(view_unchecked(), where);
    }
#endif
    template <element T, int Rank = dynamic_rank, access_from Access = access_from::host,
              layout Layout = layout::strided>
    [[nodiscard]] result<typed_view<T, Rank, Access, Layout>> try_as(
        std::source_location where = std::source_location::current()) const& {
        detail::record to{"ferry::managed_tensor::as", where};
        if (!detail::check_not_empty(*this, to)) return to.outcome.error();
        return ferry::try_as<T, Rank, Access, Layout>(view_unchecked(), where);
    }
    // clang-format off
    FERRY_DELETED_BOTH(as, try_as, (std::source_location = {}) const&, "this element type has no data type: specialise ferry::dtype_traits<T>",
        template <class T, int Rank = dynamic_rank, access_from Access = access_from::host,
                  layout Layout = layout::strided>
            requires(!element<T>));
    FERRY_DELETED_BOTH(as, try_as, (std::source_location = {}) const&&, "the view would outlive the tensor: store the managed_tensor in a variable",
        template <element T, int Rank = dynamic_rank, access_from Access = access_from::host,
                  layout Layout = layout::strided>);
    // clang-format on

    // The values of an empty object are unspecified.

    /// Returns the data type.
    [[nodiscard]] data_type dtype() const noexcept { return data_type{tensor_.dtype}; }
    /// Returns the device of the data.
    [[nodiscard]] ferry::device device() const noexcept { return ferry::device{tensor_.device}; }
    /// Returns the number of dimensions.
    [[nodiscard]] int rank() const noexcept { return tensor_.ndim; }
    /// Returns whether the data must not be written (R11).
    [[nodiscard]] bool is_read_only() const noexcept { return has(bits(), flags::read_only); }
    /// Returns whether the memory was allocated for this exchange, so that this object is its sole owner (R12).
    [[nodiscard]] bool is_copied() const noexcept { return has(bits(), flags::is_copied); }
    /// Returns the version that the struct had when it was validated; version::legacy when empty.
    [[nodiscard]] version stamped() const noexcept {
        return raw_ != nullptr ? version{version::current.major, facts_.minor} : version::legacy;
    }

    /// Returns the struct, which this object still owns; null when empty.
    [[nodiscard]] DLManagedTensorVersioned const* get() const& noexcept { return raw_; }
    // clang-format off
    DLManagedTensorVersioned const* get() const&& FERRY_DELETED("the struct would outlive the tensor: store the managed_tensor in a variable, or call release()");
    // clang-format on
    /// Releases ownership.
    ///
    /// \return  unchanged struct; null when empty. The caller must call its deleter exactly once (R62, R68), unless
    ///          the deleter is NULL (R5).
    [[nodiscard]] DLManagedTensorVersioned* release() noexcept { return std::exchange(raw_, nullptr); }
    /// Transfers ownership to a new legacy struct (R8). Makes one allocation. On failure the object is unchanged.
    ///
    /// \return       struct that owns the tensor; the caller must call its deleter exactly once; `try_release_legacy`
    ///               returns that struct or the error, which is errc::out_of_memory for std::bad_alloc
    /// \throws error           errc::read_only for read-only data (R15); errc::flags for padded elements (R13);
    ///                         errc::consumed when empty
    /// \throws std::bad_alloc  when the allocation fails
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] DLManagedTensor* release_legacy(std::source_location where = std::source_location::current());
#endif
    [[nodiscard]] result<DLManagedTensor*> try_release_legacy(
        std::source_location where = std::source_location::current());

   private:
    friend struct detail::trusted;

    explicit managed_tensor(DLManagedTensorVersioned* raw) noexcept
        : raw_{raw},
          tensor_{detail::loaded(raw->dl_tensor)},
          facts_{static_cast<std::uint32_t>(raw->flags), raw->version.minor} {}

    [[nodiscard]] flags bits() const noexcept { return flags{facts_.bits}; }
    [[nodiscard]] tensor_view view_unchecked() const noexcept { return {tensor_, bits()}; }

    /// The flags that ferry defines are in the lower half of the struct's flags. `validate` accepts one major version.
    struct facts {
        std::uint32_t bits, minor;
    };

    DLManagedTensorVersioned* raw_ = nullptr;
    DLTensor tensor_{};  // unspecified when empty, as are the facts
    facts facts_{};
};

namespace detail {

[[nodiscard]] FERRY_COLD inline bool report_empty(reporter r) {
    return report(r, errc::consumed,
                  "the managed_tensor is empty, because it was moved from or released: pass one that has data");
}

inline bool check_not_empty(managed_tensor const& tensor, reporter r) { return tensor ? true : report_empty(r); }

/// Fails for the flags of a tensor that a legacy struct cannot represent (R13, R15).
[[nodiscard]] inline bool check_legacy_flags(flags bits, reporter r) {
    flags const lost = lost_in_legacy(bits);
    if (lost == flags::none) return true;
    if (has(lost, flags::read_only))
        return report(r, errc::read_only,
                      "the legacy struct has no flag for read-only data (R15): export a copy, or request "
                      "max_version=(1, 0)");
    return report(r, errc::flags,
                  "the legacy struct has no flag for padded sub-byte elements (R13): request max_version=(1, 0)");
}

/// Access to a managed_tensor without checks.
struct trusted {
    /// Creates a managed_tensor from a valid struct; null creates an empty one.
    [[nodiscard]] static managed_tensor adopt(DLManagedTensorVersioned* raw) noexcept {
        return raw != nullptr ? managed_tensor{raw} : managed_tensor{};
    }
    /// Returns the view of a tensor that is not empty.
    [[nodiscard]] static tensor_view view(managed_tensor const& tensor) noexcept { return tensor.view_unchecked(); }
};

/// Transfers a tensor to a new legacy struct; returns null on failure.
[[nodiscard]] inline DLManagedTensor* release_legacy(managed_tensor& tensor, reporter r) {
    tensor_view const v = trusted::view(tensor);
    if (!check_not_empty(tensor, r) || !check_legacy_flags(v.flags(), r)) return nullptr;
    return make_valid_raw<DLManagedTensor>(std::move(tensor), fixed_view{v}, v, v.device(), v.flags(), version::legacy,
                                           r);
}

}  // namespace detail

inline result<tensor_view> managed_tensor::try_view(std::source_location where) const& {
    detail::record to{"ferry::managed_tensor::view", where};
    if (detail::check_not_empty(*this, to)) return view_unchecked();
    return to.outcome.error();
}

#if FERRY_HAS_EXCEPTIONS
inline DLManagedTensor* managed_tensor::release_legacy(std::source_location where) {
    return detail::release_legacy(*this, {"ferry::managed_tensor::release_legacy", where});
}
#endif
inline result<DLManagedTensor*> managed_tensor::try_release_legacy(std::source_location where) {
    return detail::attempt<DLManagedTensor*>("ferry::managed_tensor::release_legacy", where,
                                             [&](detail::reporter r) { return detail::release_legacy(*this, r); });
}

}  // namespace FERRY_NAMESPACE
