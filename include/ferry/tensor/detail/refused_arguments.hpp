// ferry: deleted overloads of the functions of typed_view; their messages state the fix.
#pragma once

#include <ferry/tensor/slice.hpp>

namespace FERRY_NAMESPACE::detail {

/// Base of typed_view. The overloads that compile are members of typed_view.
template <int Rank, bool IsHost>
struct refused_arguments {
    // clang-format off
    template <class... Index> requires(IsHost && (refused_index<Index> || ...))
    void operator()(Index...) const FERRY_DELETED("an index is an integer, not a bool or a floating-point number: convert it to std::int64_t");
    template <integral_index... Index> requires(IsHost && Rank != dynamic_rank && sizeof...(Index) != Rank)
    void operator()(Index...) const FERRY_DELETED("the number of indices is not the rank: pass one index for each dimension");
    template <class List> requires(IsHost && integer_list<List>)
    void operator()(List const&) const FERRY_DELETED("operator() does not accept a list of indices: use v[list] or v.at(list)");
    template <class... Index> requires(!IsHost)
    void operator()(Index...) const FERRY_DELETED("the view has access_from::device, and the host cannot access its elements: pass data() to a kernel, or call ferry::to_host");
    template <refused_index Index> requires(IsHost)
    void operator[](Index) const FERRY_DELETED("an index is an integer, not a bool or a floating-point number: convert it to std::int64_t");
    template <integral_index Index> requires(IsHost && Rank != dynamic_rank && Rank != 1)
    void operator[](Index) const FERRY_DELETED("v[i] requires rank 1: call v(i, j) with one index for each dimension");
    template <class Index> requires(!IsHost)
    void operator[](Index) const FERRY_DELETED("the view has access_from::device, and the host cannot access its elements: pass data() to a kernel, or call ferry::to_host");
    FERRY_DELETED_BOTH(at, try_at, (Index...) const, "an index is an integer, not a bool or a floating-point number: convert it to std::int64_t",
        template <class... Index> requires(IsHost && (refused_index<Index> || ...)));
    FERRY_DELETED_BOTH(at, try_at, (Index...) const, "the number of indices is not the rank: pass one index for each dimension",
        template <integral_index... Index> requires(IsHost && Rank != dynamic_rank && sizeof...(Index) != Rank));
    FERRY_DELETED_BOTH(at, try_at, (Index...) const, "the view has access_from::device, and the host cannot access its elements: pass data() to a kernel, or call ferry::to_host",
        template <class... Index> requires(!IsHost));
    FERRY_DELETED_BOTH(slice, try_slice, (S...) const, "slice requires a static rank: call as<T, Rank>",
        template <class... S> requires(Rank == dynamic_rank));
    FERRY_DELETED_BOTH(slice, try_slice, (S...) const, "each argument of slice must be an integer, a ferry::range_slice or ferry::full_extent",
        template <class... S> requires(Rank != dynamic_rank && (!slice_argument<S> || ...)));
    FERRY_DELETED_BOTH(slice, try_slice, (Int const (&)[N], S...) const, "pass a range of indices as ferry::range_slice{first, last}",
        template <class Int, std::size_t N, class... S>);
    FERRY_DELETED_BOTH(slice, try_slice, (First, Int const (&)[N], S...) const, "pass a range of indices as ferry::range_slice{first, last}",
        template <class First, class Int, std::size_t N, class... S>);
    FERRY_DELETED_BOTH(slice, try_slice, (S...) const, "slice requires one index or range_slice for each dimension: ferry::full_extent selects all indices",
        template <slice_argument... S> requires(Rank != dynamic_rank && sizeof...(S) != Rank));
    void begin() const requires(IsHost && Rank != 1) FERRY_DELETED("a range-based for loop requires rank 1: call ferry::for_each, or select one dimension with slice");
    void end() const requires(IsHost && Rank != 1) FERRY_DELETED("a range-based for loop requires rank 1: call ferry::for_each, or select one dimension with slice");
    // clang-format on
};

}  // namespace FERRY_NAMESPACE::detail
