// ferry: key-value metadata of columns, in the binary form of Arrow's C data interface.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <source_location>
#include <string>  // result of the builder
#include <string_view>

namespace FERRY_NAMESPACE {
namespace detail {
struct tensor_dims;
}

/// A key-value pair. Keys may repeat; values are bytes.
struct metadata_entry {
    std::string_view key{}, value{};

    friend bool operator==(metadata_entry const&, metadata_entry const&) = default;
};

namespace detail {

[[nodiscard]] inline std::int32_t metadata_number(char const* p) noexcept {
    std::int32_t n = 0;
    std::memcpy(&n, p, sizeof n);
    return n;
}

/// Computes the size of the binary form: an int32 count, then for each key and value an int32 length and the bytes, in
/// native byte order. Returns false if it exceeds [p, end) or a number is negative. If `end` is null, as for an
/// ArrowSchema, only the numbers are checked.
[[nodiscard]] inline bool measure_metadata(char const* p, char const* end, std::size_t& size) noexcept {
    char const* const begin = p;
    auto const fits = [&](std::size_t n) { return end == nullptr || n <= static_cast<std::size_t>(end - p); };
    if (!fits(4)) return false;
    std::int32_t const pairs = metadata_number(p);
    p += 4;
    if (pairs < 0) return false;
    for (std::int64_t i = 0; i < std::int64_t{pairs} * 2; ++i) {
        if (!fits(4)) return false;
        std::int32_t const length = metadata_number(p);
        p += 4;
        if (length < 0 || !fits(static_cast<std::size_t>(length))) return false;
        p += length;
    }
    size = static_cast<std::size_t>(p - begin);
    return true;
}

}  // namespace detail

/// A range over the pairs of `column_view::metadata()`, in their order. Does not own the bytes.
class metadata_view {
   public:
    /// Forward iterator over the pairs.
    class iterator {
       public:
        using value_type = metadata_entry;
        using difference_type = std::ptrdiff_t;
        using iterator_concept = std::forward_iterator_tag;

        iterator() = default;
        [[nodiscard]] metadata_entry operator*() const noexcept {
            char const* p = at_;
            auto const key = take(p);
            return {key, take(p)};
        }
        iterator& operator++() noexcept {
            static_cast<void>(take(at_));
            static_cast<void>(take(at_));
            --left_;
            return *this;
        }
        iterator operator++(int) noexcept {
            auto const before = *this;
            ++*this;
            return before;
        }
        friend bool operator==(iterator const& a, iterator const& b) noexcept { return a.left_ == b.left_; }
        friend bool operator==(iterator const& a, std::default_sentinel_t) noexcept { return a.left_ == 0; }

       private:
        friend metadata_view;
        iterator(char const* at, std::int32_t left) noexcept : at_{at}, left_{left} {}
        [[nodiscard]] static std::string_view take(char const*& p) noexcept {
            auto const length = static_cast<std::size_t>(detail::metadata_number(p));
            std::string_view const text{p + 4, length};
            p += 4 + length;
            return text;
        }

        char const* at_ = nullptr;
        std::int32_t left_ = 0;
    };

    metadata_view() = default;
    /// Validates the bytes.
    ///
    /// \param bytes  binary form; empty for no pairs. Bytes after the last pair are ignored
    /// \return       `try_make`: view, or the error
    /// \throws error  errc::bad_column: invalid sizes
#if FERRY_HAS_EXCEPTIONS
    explicit metadata_view(std::string_view bytes, std::source_location where = std::source_location::current())
        : metadata_view{bytes, detail::reporter{"ferry::metadata_view", where}} {}
#endif
    [[nodiscard]] static result<metadata_view> try_make(std::string_view bytes,
                                                        std::source_location where = std::source_location::current()) {
        return detail::attempt<metadata_view>("ferry::metadata_view", where,
                                              [&](detail::reporter r) { return metadata_view{bytes, r}; });
    }

    [[nodiscard]] iterator begin() const noexcept { return first_; }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
    [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(first_.left_); }
    [[nodiscard]] bool empty() const noexcept { return first_.left_ == 0; }
    /// \param key  key
    /// \return     value of the first pair with the key; its data is null if there is none
    [[nodiscard]] std::string_view find(std::string_view key) const noexcept {
        for (auto it = begin(); it != end(); ++it)
            if ((*it).key == key) return (*it).value;
        return {};
    }

   private:
    metadata_view(std::string_view bytes, detail::reporter r) {
        if (bytes.empty()) return;
        if (std::size_t size = 0; detail::measure_metadata(bytes.data(), bytes.data() + bytes.size(), size))
            first_ = {bytes.data() + 4, detail::metadata_number(bytes.data())};
        else
            static_cast<void>(report(
                r, errc::bad_column,
                message{"the metadata of "}
                    << std::uint64_t{bytes.size()}
                    << " bytes is invalid: a size is negative or exceeds it: correct the metadata in the producer"));
    }

    iterator first_{};
};

/// Writes pairs in the binary form: `metadata_builder{}.add("unit", "m").bytes()`.
class metadata_builder {
   public:
    /// Appends a pair.
    ///
    /// \param key    key
    /// \param value  value
    /// \return       this object; `try_add` returns success or the error
    /// \throws error           errc::overflow: a size or the number of pairs exceeds int32
    /// \throws std::bad_alloc  when an allocation fails; no pair was added
#if FERRY_HAS_EXCEPTIONS
    metadata_builder& add(std::string_view key, std::string_view value,
                          std::source_location where = std::source_location::current()) & {
        static_cast<void>(add_pair(key, value, {"ferry::metadata_builder::add", where}));
        return *this;
    }
    metadata_builder&& add(std::string_view key, std::string_view value,
                           std::source_location where = std::source_location::current()) && {
        return static_cast<metadata_builder&&>(add(key, value, where));
    }
#endif
    [[nodiscard]] result<> try_add(std::string_view key, std::string_view value,
                                   std::source_location where = std::source_location::current()) {
        return detail::attempt<void>("ferry::metadata_builder::add", where,
                                     [&](detail::reporter r) { return add_pair(key, value, r); });
    }
    /// \return  the binary form; empty if there are no pairs
    [[nodiscard]] std::string const& bytes() const& noexcept { return bytes_; }
    [[nodiscard]] std::string bytes() && noexcept { return static_cast<std::string&&>(bytes_); }

   private:
    friend detail::tensor_dims;
    [[nodiscard]] bool add_pair(std::string_view key, std::string_view value, detail::reporter r) {
        constexpr std::size_t most = (std::numeric_limits<std::int32_t>::max)();
        if (key.size() > most || value.size() > most || pairs_ == static_cast<std::int32_t>(most))
            return report(
                r, errc::overflow,
                "the metadata is too large, expected at most 2^31 - 1 pairs and bytes of a key or value: use fewer or "
                "shorter pairs");
        bytes_.reserve((bytes_.empty() ? 4 : bytes_.size()) + 8 + key.size() + value.size());
        if (bytes_.empty()) bytes_.resize(4);
        put(key);
        put(value);
        ++pairs_;
        std::memcpy(bytes_.data(), &pairs_, 4);
        return true;
    }
    void put(std::string_view text) {
        auto const length = static_cast<std::int32_t>(text.size());
        char number[4];
        std::memcpy(number, &length, 4);
        bytes_.append(number, 4).append(text);
    }

    std::string bytes_;
    std::int32_t pairs_ = 0;
};

}  // namespace FERRY_NAMESPACE
