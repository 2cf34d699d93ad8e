#include <ferry/ipc/detail/system.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cerrno>

using ferry::errc;

TEST_CASE("each value of errno becomes an error code, and the message names the call") {
    struct {
        errc code;
        int number;
        char const* text;
    } const known[] = {
        {errc::permission, EACCES, "Permission denied"},
        {errc::permission, EPERM, "not permitted"},
        {errc::exporter_gone, ENOENT, "No such file"},
        {errc::exporter_gone, ECONNREFUSED, "refused"},
        {errc::exporter_gone, EPIPE, "Broken pipe"},
        {errc::out_of_memory, EMFILE, "ulimit"},
        {errc::out_of_memory, ENFILE, "ulimit"},
        {errc::out_of_memory, ENOMEM, "memory"},
        {errc::unsupported_platform, ENOSYS, "not implemented"},
        {errc::unsupported_platform, EOPNOTSUPP, "not supported"},
        {errc::argument, EINVAL, "Invalid argument"},
    };
    for (auto const& k : known)
        support::fails(k.code, [&] { ferry::ipc::detail::fail_system("ferry::ipc::here", "memfd_create", k.number); },
                       {"memfd_create", k.text});
}
