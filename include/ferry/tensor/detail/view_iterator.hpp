// ferry: the iterator of typed views whose elements are not adjacent, and of the items of columns.
#pragma once

#include <ferry/config.hpp>

#include <compare>
#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// A random access iterator over a view of rank 1. Stores the view, so that the iterator remains valid as long as the
/// elements do. The position is an index, because elements with stride 0 have the same address.
template <class View>
class view_iterator {
   public:
    using value_type = typename View::value_type;
    using reference = typename View::reference;
    using difference_type = std::int64_t;

    constexpr view_iterator() = default;
    constexpr view_iterator(View const& v, std::int64_t index) noexcept : view_{v}, index_{index} {}

    [[nodiscard]] constexpr reference operator*() const noexcept(is_nothrow) { return view_(index_); }
    [[nodiscard]] constexpr reference operator[](std::int64_t n) const noexcept(is_nothrow) {
        return view_(index_ + n);
    }

    constexpr view_iterator& operator+=(std::int64_t n) noexcept {
        index_ += n;
        return *this;
    }
    constexpr view_iterator& operator-=(std::int64_t n) noexcept { return *this += -n; }
    constexpr view_iterator& operator++() noexcept { return *this += 1; }
    constexpr view_iterator& operator--() noexcept { return *this -= 1; }
    constexpr view_iterator operator++(int) noexcept {
        auto const old = *this;
        ++*this;
        return old;
    }
    constexpr view_iterator operator--(int) noexcept {
        auto const old = *this;
        --*this;
        return old;
    }
    [[nodiscard]] friend constexpr view_iterator operator+(view_iterator i, std::int64_t n) noexcept { return i += n; }
    [[nodiscard]] friend constexpr view_iterator operator+(std::int64_t n, view_iterator i) noexcept { return i += n; }
    [[nodiscard]] friend constexpr view_iterator operator-(view_iterator i, std::int64_t n) noexcept { return i -= n; }
    [[nodiscard]] friend constexpr std::int64_t operator-(view_iterator const& a, view_iterator const& b) noexcept {
        return a.index_ - b.index_;
    }
    [[nodiscard]] friend constexpr bool operator==(view_iterator const& a, view_iterator const& b) noexcept {
        return a.index_ == b.index_;
    }
    [[nodiscard]] friend constexpr auto operator<=>(view_iterator const& a, view_iterator const& b) noexcept {
        return a.index_ <=> b.index_;
    }

   private:
    static constexpr bool is_nothrow = noexcept(std::declval<View const&>()(std::int64_t{}));

    View view_;
    std::int64_t index_ = 0;
};

}  // namespace FERRY_NAMESPACE::detail
