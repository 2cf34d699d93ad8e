// ferry: the items of a column as optional values of a C++ type.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/detail/value_reader.hpp>
#include <ferry/column/view.hpp>
#include <ferry/tensor/detail/view_iterator.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the column
#include <optional>
#include <source_location>
#include <span>
#include <utility>

namespace FERRY_NAMESPACE {

/// A C++ type of column items: `bool`; integers and floats, also for dates, times, durations and months; a type with a
/// dtype_of of the same width, such as a half; `decimal<Bits>`, `day_time`, `month_day_nano`; `std::string_view` for
/// text; `std::span<std::byte const>` for text and binary items; `column_view` for the items of a list, the entries of
/// a map and the rows of a struct.
template <class T>
concept column_value =
    requires(column_type const& t, detail::value_reader<T> const& r, std::int64_t i, detail::reporter to) {
        { detail::value_reader<T>::accepts(t) } -> std::same_as<bool>;
        { r.read(i, to) } -> std::same_as<T>;
    };

namespace detail {
/// The items of column_values, for its iterator.
template <class Values>
struct items_of {
    using value_type = typename Values::value_type;
    using reference = value_type;

    Values const* values = nullptr;

    [[nodiscard]] reference operator()(std::int64_t i) const { return (*values)[i]; }
};
}  // namespace detail

/// The items of a column in host memory, as a random-access range of std::optional<T>, empty for nulls. A range that is
/// made from a column keeps the memory alive; one that is made from a view does not. The items of a dictionary-encoded
/// column are the values of the dictionary. A column of type null has nulls of any T.
template <column_value T>
class column_values {
   public:
    using value_type = std::optional<T>;

    /// \param c      column
    /// \param owner  object that keeps the column alive, or null
    /// \return       `try_make`: items, or the error
    /// \throws error  errc::dtype: items of another type, which the message names;  not_accessible: the host cannot
    ///                read the memory
#if FERRY_HAS_EXCEPTIONS
    explicit column_values(column_view c, std::shared_ptr<void const> owner = {},
                           std::source_location where = std::source_location::current())
        : column_values{c, std::move(owner), detail::reporter{detail::values_api, where}} {}
#endif
    [[nodiscard]] static result<column_values> try_make(column_view c, std::shared_ptr<void const> owner = {},
                                                        std::source_location where = std::source_location::current()) {
        return detail::attempt<column_values>(
            detail::values_api, where, [&](detail::reporter r) { return column_values{c, std::move(owner), r}; });
    }

    [[nodiscard]] std::int64_t size() const noexcept { return c_.length(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
#if FERRY_HAS_EXCEPTIONS
    /// Returns an item. Offsets, views and indices are checked before they are followed.
    ///
    /// \param i  index in [0, size()); not checked
    /// \throws error  errc::bad_column: an offset, view or index outside of the buffers
    [[nodiscard]] std::optional<T> operator[](std::int64_t i) const { return item(i, detail::item_thrower{}); }
    /// Returns whether an item is not null.
    ///
    /// \param i  index in [0, size()); not checked
    [[nodiscard]] bool is_valid(std::int64_t i) const { return (*this)[i].has_value(); }
#endif
    /// Returns an item.
    ///
    /// \param i      index
    /// \return       item; `try_at` returns the item or the error
    /// \throws error  errc::out_of_range: not in [0, size());  as operator[]
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] std::optional<T> at(std::int64_t i,
                                      std::source_location where = std::source_location::current()) const {
        return checked_item(i, {at_api, where});
    }
#endif
    [[nodiscard]] result<std::optional<T>> try_at(std::int64_t i,
                                                  std::source_location where = std::source_location::current()) const {
        return detail::attempt<std::optional<T>>(at_api, where, [&](detail::reporter r) { return checked_item(i, r); });
    }

    /// Returns the items of a column of fixed width without nulls as a span over its memory.
    ///
    /// \return       span; `try_span` returns the span or the error
    /// \throws error  errc::argument: nulls or a dictionary;  alignment: the memory is not aligned for a T
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] std::span<T const> span(std::source_location where = std::source_location::current()) const
        requires requires(detail::value_reader<T> const& r) { r.begin(); }
    {
        return checked_span({span_api, where});
    }
#endif
    [[nodiscard]] result<std::span<T const>> try_span(
        std::source_location where = std::source_location::current()) const
        requires requires(detail::value_reader<T> const& r) { r.begin(); }
    {
        return detail::attempt<std::span<T const>>(span_api, where,
                                                   [&](detail::reporter r) { return checked_span(r); });
    }

#if FERRY_HAS_EXCEPTIONS
    /// Random-access iterator, which reads the item when it is dereferenced.
    using iterator = detail::view_iterator<detail::items_of<column_values>>;
    [[nodiscard]] iterator begin() const noexcept { return {{this}, 0}; }
    [[nodiscard]] iterator end() const noexcept { return {{this}, size()}; }
#endif

   private:
    static constexpr char const *at_api = "ferry::column_values::at", *span_api = "ferry::column_values::span";

    column_values(column_view c, std::shared_ptr<void const>&& owner, detail::reporter r)
        : owner_{std::move(owner)},
          c_{c},
          is_null_{(c.has_dictionary() ? detail::dictionary_of(c) : c).type().id == type_id::null},
          valid_{c.validity()} {
        if (!detail::check_host(c, r) || is_null_ || !check_type(r)) return;
        reader_.emplace(c.has_dictionary() ? detail::dictionary_of(c) : c);
        if (!c.has_dictionary()) return;
        indices_ = c.buffers()[1].data;
        known_ = detail::dictionary_of(c);
        known_valid_ = known_.validity();
    }
    [[nodiscard]] bool check_type(detail::reporter r) const {
        auto const source = c_.has_dictionary() ? detail::dictionary_of(c_) : c_;
        if (source.has_dictionary())
            return report(r, errc::dtype,
                          "the dictionary of the column is dictionary-encoded: read dictionary() as a separate column");
        if (detail::value_reader<T>::accepts(source.type())) return true;
        return report(r, errc::dtype,
                      message{"the items of a column of format "} << source.name_of_format()
                                                                  << " have another type: call values<T>() with "
                                                                  << detail::cure_for(source.type()));
    }
    [[nodiscard]] std::optional<T> item(std::int64_t i, auto r) const {
        if (is_null_ || !valid_[i]) return std::nullopt;
        if (indices_ == nullptr) return reader_->read(i, r);
        auto const index = detail::load_index(indices_, c_.offset() + i, c_.type().id);
        if (index < 0 || index >= known_.length())
            return detail::report_item(r, c_, i, "its index is outside the dictionary"), std::nullopt;
        if (!known_valid_[index]) return std::nullopt;
        return reader_->read(index, r);
    }
    [[nodiscard]] std::optional<T> checked_item(std::int64_t i, detail::reporter r) const {
        if (i >= 0 && i < size()) return item(i, r);
        static_cast<void>(report(r, errc::out_of_range,
                                 message{"item "} << i << " is out of range: size() is " << size()
                                                  << ": pass an index from 0 to size() - 1"));
        return std::nullopt;
    }
    [[nodiscard]] std::span<T const> checked_span(detail::reporter r) const {
        if (is_null_ || indices_ != nullptr || detail::count_nulls(c_, r) != 0) {
            static_cast<void>(
                report(r, errc::argument, "expected a column without nulls or dictionary: read the items one by one"));
            return {};
        }
        auto const* const begin = reader_->begin();
        if (reinterpret_cast<std::uintptr_t>(begin) % alignof(T) == 0)
            return {static_cast<T const*>(begin), static_cast<std::size_t>(size())};
        static_cast<void>(report(r, errc::alignment,
                                 message{"the first item is not aligned to "}
                                     << std::uint64_t{alignof(T)}
                                     << " bytes: read them one by one, or copy the column"));
        return {};
    }

    std::shared_ptr<void const> owner_;
    column_view c_;
    bool is_null_;
    bitmap_view valid_;
    std::optional<detail::value_reader<T>> reader_{};  // empty if all items are null
    void const* indices_ = nullptr;
    column_view known_{};
    bitmap_view known_valid_{};
};

#if FERRY_HAS_EXCEPTIONS
template <class T>
auto column_view::values(std::source_location where) const {
    return column_values<T>{*this, {}, where};
}
#endif
template <class T>
auto column_view::try_values(std::source_location where) const {
    return column_values<T>::try_make(*this, {}, where);
}

}  // namespace FERRY_NAMESPACE
