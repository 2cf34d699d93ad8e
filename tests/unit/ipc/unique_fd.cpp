#include <ferry/ipc/unique_fd.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cerrno>

using ferry::errc;

TEST_CASE("each value of errno becomes an error code, with a fix in the message") {
    struct {
        errc code;
        int number;
        char const* cure;
    } const known[] = {
        {errc::permission, EACCES, "let in"},
        {errc::permission, EPERM, "let in"},
        {errc::exporter_gone, ENOENT, "start"},
        {errc::exporter_gone, ECONNREFUSED, "start"},
        {errc::exporter_gone, EPIPE, "start"},
        {errc::out_of_memory, EMFILE, "ulimit"},
        {errc::out_of_memory, ENFILE, "ulimit"},
        {errc::out_of_memory, ENOMEM, "here"},
        {errc::unsupported_platform, ENOSYS, "Linux"},
        {errc::unsupported_platform, EOPNOTSUPP, "Linux"},
        {errc::argument, EINVAL, "here"},
    };
    for (auto const& k : known)
        support::fails(k.code, [&] { ferry::ipc::fail_system("ferry::ipc::here", "pidfd_open", k.number); },
                       {"pidfd_open", k.cure});
}
