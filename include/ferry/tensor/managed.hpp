// ferry: a tensor that is owned.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <source_location>
#include <utility>

namespace ferry::inline v0 {
namespace detail {
struct trusted;
}

/// The sole owner of one DLManagedTensorVersioned, validated: nobody else's struct can be in here unchecked. Move-only;
/// its destructor calls the deleter (R6, R68). The fields were copied out of the struct when it came, so that later
/// changes of the struct by other holders do no harm, and it never writes into one (R33). The arrays of extents and
/// strides stay the producer's, who keeps them as they are (R7).
///
/// Different objects may be used from different threads; one object as any value. The deleter runs on the thread that
/// drops the tensor (R65), after which the memory is gone: finish your own asynchronous work first (R50).
class managed_tensor {
   public:
    /// Holds nothing, as after a move or a release.
    managed_tensor() = default;
    managed_tensor(managed_tensor&& other) noexcept
        : raw_{std::exchange(other.raw_, nullptr)}, view_{std::exchange(other.view_, {})} {}
    managed_tensor& operator=(managed_tensor&& other) noexcept {
        managed_tensor taken{std::move(other)};  // then a swap: assigning a tensor to itself keeps it
        std::swap(raw_, taken.raw_);
        std::swap(view_, taken.view_);
        return *this;
    }
    ~managed_tensor() {
        // mutant: r6_destructor
        if (raw_ != nullptr && raw_->deleter != nullptr) raw_->deleter(raw_);  // R5: the deleter may be NULL
    }

    /// Whether it holds a tensor.
    [[nodiscard]] explicit operator bool() const noexcept { return raw_ != nullptr; }

    /// The tensor, borrowed. The reference is to a member: a move empties what it names. A copy of the view stays valid
    /// while this object, or whatever it is moved into, lives.
    [[nodiscard]] tensor_view const& view() const& noexcept { return view_; }
    // clang-format off
    tensor_view const& view() const&& FERRY_DELETED("the view would outlive the tensor: keep the managed_tensor in a variable");
    // clang-format on

    /// The typed view of it; see ferry::as for what is checked.
    /// \throws error  as ferry::as;  errc::consumed when empty
    template <element T, int Rank = dynamic_rank, access Access = access::host, layout Layout = layout::strided>
    [[nodiscard]] auto as(std::source_location where = std::source_location::current()) const& {
        if (raw_ == nullptr)
            detail::fail(errc::consumed, "ferry::managed_tensor::as",
                         message{"it holds no tensor: it was moved from or released"}, where);
        return ferry::as<T, Rank, Access, Layout>(view_, where);
    }
    template <element T, int Rank = dynamic_rank, access Access = access::host, layout Layout = layout::strided>
    void as() const&& FERRY_DELETED("the view would outlive the tensor: keep the managed_tensor in a variable");

    [[nodiscard]] data_type dtype() const noexcept { return view_.dtype(); }
    [[nodiscard]] ferry::device device() const noexcept { return view_.device(); }
    [[nodiscard]] int rank() const noexcept { return view_.rank(); }
    [[nodiscard]] bool is_read_only() const noexcept { return view_.is_read_only(); }
    /// Whether the memory was made for this exchange, so that this object is its sole owner (R12).
    [[nodiscard]] bool is_copied() const noexcept { return view_.is_copied(); }
    /// The version stamped on it.
    [[nodiscard]] version stamped() const noexcept {
        return raw_ != nullptr ? version{raw_->version.major, raw_->version.minor} : version::legacy;
    }

    /// The struct, still owned here.
    [[nodiscard]] DLManagedTensorVersioned const* get() const& noexcept { return raw_; }
    // clang-format off
    DLManagedTensorVersioned const* get() const&& FERRY_DELETED("the struct would outlive the tensor: keep the managed_tensor in a variable, or call release()");
    // clang-format on
    /// Hands the struct over as it came, flags included: the caller owes exactly one deleter call (R62, R68).
    [[nodiscard]] DLManagedTensorVersioned* release() noexcept {
        view_ = {};
        return std::exchange(raw_, nullptr);
    }
    /// Hands it over as the unversioned struct of old consumers (R8), which owns this one; see tensor/legacy.hpp.
    [[nodiscard]] DLManagedTensor* release_legacy(std::source_location where = std::source_location::current());

   private:
    friend managed_tensor from_dlpack(DLManagedTensorVersioned*, std::source_location);
    friend struct detail::trusted;

    explicit managed_tensor(DLManagedTensorVersioned* raw) noexcept
        : raw_{raw}, view_{raw->dl_tensor, ferry::flags{raw->flags}} {}

    DLManagedTensorVersioned* raw_ = nullptr;
    tensor_view view_;
};

/// Takes over a foreign tensor once all of it has been checked (R2, R3, R16–R32).
///
/// Owns `raw` on success; on failure its deleter has run exactly once (R2: even for another major version, and then
/// nothing but version and deleter was touched). Reads metadata only, never data. Does not synchronise: device data is
/// ready where its producer said. May be called from any thread.
///
/// \throws error  errc::null_struct, version, device, dtype, rank, shape, overflow, null_data: the message names the
///                field, its value and the cure
[[nodiscard]] inline managed_tensor from_dlpack(DLManagedTensorVersioned* raw,
                                                std::source_location where = std::source_location::current()) {
    if (raw == nullptr)
        detail::fail(errc::null_struct, "ferry::from_dlpack", message{"the DLManagedTensorVersioned* is null"}, where);
    try {
        detail::check_managed(raw, "ferry::from_dlpack", where);
    } catch (...) {
        if (raw->deleter != nullptr) raw->deleter(raw);  // mutant: r62_failed_import
        throw;
    }
    return managed_tensor{raw};
}

}  // namespace ferry::inline v0
