// Prints the decisions of ferry::negotiate for the most common cases: share, copy or refuse, and which side waits.
// docs/protocol.md shows the output.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>

namespace {

constexpr ferry::device gpu{ferry::device_type::cuda, 0};
constexpr ferry::device managed{ferry::device_type::cuda_managed, 0};

struct asked {
    char const* words;
    std::optional<ferry::device> device;
    ferry::version newest = ferry::version::current;
};

char const* how(ferry::decision const& d) {
    if (d.action == ferry::action::refuse) return ferry::name(d.reason);
    switch (d.wait) {
        case ferry::wait::none: return "no wait";
        case ferry::wait::order: return "streams are ordered";
        case ferry::wait::host: return "host waits";
    }
    return "";
}

}  // namespace

int main() {
    struct producer {
        char const* words;
        ferry::device where;
        ferry::flags bits = ferry::flags::none;
        bool has_share = true;
    };
    constexpr producer producers[] = {
        {"host memory", ferry::cpu},
        {"host memory, read-only", ferry::cpu, ferry::flags::read_only},
        {"host memory, no share()", ferry::cpu, ferry::flags::none, false},
        {"managed memory", managed},
        {"GPU memory", gpu},
    };
    constexpr asked requests[] = {
        {"same device", {}},
        {"host", ferry::cpu},
        {"GPU", gpu},
        {"same device, legacy struct", {}, ferry::version::legacy},
    };
    constexpr char const* policies[] = {"if_needed", "always", "never"};

    for (auto const& p : producers)
        for (auto const& r : requests)
            for (auto const copy : {ferry::copy_policy::if_needed, ferry::copy_policy::always,
                                    ferry::copy_policy::never}) {
                ferry::tensor_properties props{
                    .device = p.where, .bits = p.bits, .type = ferry::dtype_of<float>};
                props.ready_on = p.where.type == ferry::device_type::cpu
                                     ? ferry::already_ready
                                     : ferry::stream_token::from_cuda_handle(0x1000);
                props.is_shareable = p.has_share;
                ferry::request const request{
                    .device = r.device, .copy = copy, .max_version = r.newest};
                ferry::decision const d = ferry::negotiate(props, request);
                constexpr char const* acts[] = {"share", "copy", "refuse"};
                std::printf("%s; %s; %s; %s; %s\n", p.words, r.words,
                            policies[static_cast<int>(copy)], acts[static_cast<int>(d.action)],
                            how(d));
            }
}
