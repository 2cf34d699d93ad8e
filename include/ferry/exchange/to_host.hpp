// ferry: finished data on the host, in one call.
#pragma once

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// The tensor of any producer, on the host, ready: shares what the host can read and copies the rest (R39, R48, R53).
/// When it returns the data is there, whatever stream produced it (D7). A copy is flagged is_copied; its memory comes
/// from the back end, or from a space of yours with `allocating_from{space, back_end}`.
///
/// \throws error  as from_dlpack
template <class Producer, class BackEnd = host_back_end const&>
    requires(!std::same_as<std::remove_cvref_t<Producer>, managed_tensor>)
[[nodiscard]] managed_tensor to_host(Producer&& from, BackEnd&& b = host_only,
                                     std::source_location where = std::source_location::current()) {
    return from_dlpack<managed_tensor>(std::forward<Producer>(from), request{.device = cpu}, b, where);
}

/// The same for a tensor without a producer behind it: nobody can be asked, so say where it is ready
/// (`ferry::already_ready` when nothing is pending). On failure the tensor is still the caller's.
template <class BackEnd>
[[nodiscard]] managed_tensor to_host(managed_tensor&& tensor, BackEnd&& b, stream_token ready_on,
                                     std::source_location where = std::source_location::current()) {
    return to_dlpack(std::move(tensor), request{.device = cpu}, b, ready_on, where);
}

template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
// clang-format off
managed_tensor to_host(managed_tensor&&, BackEnd&&) FERRY_DELETED("say where the tensor is ready: a stream, or ferry::already_ready when nothing is pending");
// clang-format on
template <class Tensor, class... Rest>
    requires(std::is_lvalue_reference_v<Tensor> && std::same_as<std::remove_cvref_t<Tensor>, managed_tensor>)
managed_tensor to_host(Tensor&&, Rest&&...) FERRY_DELETED("a managed_tensor has one owner: std::move it in");

/// A tensor that is on the host already needs no word of streams.
/// \throws error  errc::stream when it is not
[[nodiscard]] inline managed_tensor to_host(managed_tensor&& tensor,
                                            std::source_location where = std::source_location::current()) {
    return to_dlpack(std::move(tensor), request{.device = cpu}, host_only, {}, where);
}

}  // namespace ferry::inline v0
