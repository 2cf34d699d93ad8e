// ferry: little-endian numbers, lists and records, written to bytes and read from them within bounds.
#pragma once

#include <ferry/wire/detail/place.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>  // what is read is owned
#include <utility>
#include <vector>  // as above

namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail {

class writer {
   public:
    explicit writer(caller const& by) noexcept : by_{by} {}

    template <std::unsigned_integral T>
    void put(T value) {
        for (std::size_t i = 0; i < sizeof value; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i & 0xff));
    }
    void put_raw(std::span<std::byte const> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    void put_size(std::size_t n) {
        if (n > UINT32_MAX) refuse_length(n);
        put(static_cast<std::uint32_t>(n));
    }
    void put_list(std::span<std::byte const> bytes) { put_size(bytes.size()), put_raw(bytes); }

    [[nodiscard]] std::span<std::byte const> written() const noexcept { return bytes_; }
    [[nodiscard]] std::vector<std::byte> release() && noexcept { return std::move(bytes_); }

    /// A tag, a length, and what `f` writes.
    template <class Tag, class F>
    void put_record(Tag tag, F f) {
        put(static_cast<std::uint16_t>(tag)), put(std::uint32_t{0});
        auto const begin = bytes_.size();
        f();
        auto const length = bytes_.size() - begin;
        if (length > UINT32_MAX) refuse_length(length);
        for (std::size_t i = 0; i < 4; ++i) bytes_[begin - 4 + i] = static_cast<std::byte>(length >> 8 * i & 0xff);
    }

   private:
    FERRY_COLD void refuse_length(std::uint64_t n) const {
        by_.refuse("a list or record of ", n, " bytes or items is longer than 32 bits can count");
    }

    caller by_;
    std::vector<std::byte> bytes_;
};

/// Reads from the front of some bytes, and refuses to read past their end. After an error it is at their end, and gives
/// zeros and empty values.
class reader {
   public:
    reader(std::span<std::byte const> bytes, caller const& by, std::size_t at = 0) noexcept
        : bytes_{bytes}, by_{by}, at_{at} {}

    [[nodiscard]] bool is_empty() const noexcept { return at_ == bytes_.size(); }

    template <std::unsigned_integral T>
    [[nodiscard]] T take(char const* what) {
        auto const raw = take_raw(sizeof(T), what);
        std::uint64_t value = 0;
        for (std::size_t i = raw.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(raw[i]);
        return static_cast<T>(value);
    }
    /// How many items of at least `size` bytes follow; no more than there is room for, so that memory may be taken for
    /// them.
    [[nodiscard]] std::size_t take_count(std::size_t size, char const* what) {
        std::size_t const count = take<std::uint32_t>(what);
        if (count <= left() / size) return count;  // mutant: wire_count
        refuse(": truncated: ", what, " has ", std::uint64_t{count}, " items of ", std::uint64_t{size}, " bytes, and ",
               std::uint64_t{left()}, " bytes are left");
        return 0;
    }
    [[nodiscard]] std::string take_text(char const* what) {
        auto const raw = take_raw(take_count(1, what), what);
        return {reinterpret_cast<char const*>(raw.data()), raw.size()};
    }
    [[nodiscard]] std::vector<std::byte> take_list(char const* what) {
        auto const raw = take_raw(take_count(1, what), what);
        return {raw.begin(), raw.end()};
    }
    /// The next record: its tag, and a reader that ends where it ends.
    [[nodiscard]] std::pair<std::uint16_t, reader> take_record() {
        auto const tag = take<std::uint16_t>("a record's tag");
        auto const length = take_count(1, "a record");
        at_ += length;
        return {tag, reader{bytes_.first(at_), by_, at_ - length}};
    }

    template <class... Parts>
    FERRY_COLD void refuse(Parts const&... parts) {
        by_.refuse("at byte ", std::uint64_t{at_}, parts...);
        at_ = bytes_.size();
    }

   private:
    [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }
    [[nodiscard]] std::span<std::byte const> take_raw(std::size_t size, char const* what) {
        if (size > left()) {
            refuse(": truncated: ", what, " needs ", std::uint64_t{size}, " bytes, and ", std::uint64_t{left()},
                   " are left");
            return {};
        }
        at_ += size;
        return bytes_.subspan(at_ - size, size);
    }

    std::span<std::byte const> bytes_;  // from the document's first, so that a place in them is a place in the document
    caller by_;
    std::size_t at_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail
