// Memory pages that can be made unreadable or read-only, so that a touch too many ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>

namespace support {

/// Two pages. The first is for the test, the second can be closed.
class two_pages {
   public:
    two_pages() {
        void* const at = ::mmap(nullptr, 2 * size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc{};
        begin_ = static_cast<std::byte*>(at);
    }
    two_pages(two_pages const&) = delete;
    two_pages& operator=(two_pages const&) = delete;
    ~two_pages() { ::munmap(begin_, 2 * size()); }

    [[nodiscard]] static std::size_t size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
    [[nodiscard]] std::byte* first() const noexcept { return begin_; }
    [[nodiscard]] std::byte* second() const { return begin_ + size(); }
    /// Touching the second page is a crash from here on.
    void close_second() const { ::mprotect(second(), size(), PROT_NONE); }
    /// Writing to either is.
    void make_read_only() const { ::mprotect(begin_, 2 * size(), PROT_READ); }

   private:
    std::byte* begin_ = nullptr;
};

}  // namespace support
