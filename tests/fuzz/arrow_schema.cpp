// Schemas from arbitrary bytes: formats, names and metadata, and inconsistent trees. Either an error, or a type that is
// exported and imported unchanged; the caller owns the schema.
#include "arrow.hpp"

#include <ferry/base/error.hpp>

namespace {

class schema_maker {
   public:
    schema_maker(fuzz::bytes& in, fuzz::pool& memory) : in_{in}, memory_{memory} {}

    void make(ArrowSchema& s, int depth) {
        auto const what = in_.take<std::uint8_t>();
        s.format = memory_.text(what < 0xe0 ? fuzz::formats[what % std::size(fuzz::formats)]
                                            : fuzz::take_text(in_, memory_, 12));
        auto const more = in_.take<std::uint8_t>();
        if ((more & 1) != 0) s.name = memory_.text(fuzz::take_text(in_, memory_, 5));
        if ((more & 2) != 0) s.metadata = fuzz::take_metadata(in_, memory_);
        if ((more & 4) != 0) s.flags = in_.take<std::int64_t>();
        auto const type = ferry::parse_format(s.format);
        auto const wanted = type ? ferry::layout_of(*type).child_count : 1;
        auto const children = (more & 8) != 0 ? in_.below(4) : wanted < 0 ? 2U : static_cast<unsigned>(wanted);
        if (children != 0 && depth < 70) {
            s.n_children = children;
            s.children = memory_.take_of<ArrowSchema*>(children);
            for (unsigned i = 0; i < children; ++i)
                make(*(s.children[i] = memory_.take_of<ArrowSchema>(1)), in_.is_empty() ? 70 : depth + 1);
        }
        if ((more & 16) != 0 && depth < 70) make(*(s.dictionary = memory_.take_of<ArrowSchema>(1)), depth + 1);
        fuzz::own(s, released);
        if ((more & 0xe0) != 0xe0) return;
        is_bad = true;  // an invalid schema
        switch (in_.below(5)) {
            case 0: s.format = nullptr; break;
            case 1: fuzz::let_go(s); break;
            case 2: s.n_children = -1; break;
            case 3: s.n_children = 1, s.children = nullptr; break;
            default:
                if (s.n_children != 0) s.children[0] = nullptr;
                else s.n_children = INT64_MAX;
        }
    }
    int released = 0;
    bool is_bad = false;

   private:
    fuzz::bytes& in_;
    fuzz::pool& memory_;
};

void read(std::string_view bytes) {
    std::size_t count = 0, size = 4;
    try {
        ferry::metadata_view const view{bytes};
        for (auto const& [key, value] : view) ++count, size += 8 + key.size() + value.size();
        HOLDS(count == view.size() && (bytes.empty() || size <= bytes.size()));
        ferry::metadata_builder again;
        for (auto const& [key, value] : view) again.add(key, value);
        HOLDS(count == 0 || again.bytes() == bytes.substr(0, size));
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::bad_column);
    }
}

void read_all(ferry::column_view c) {
    read(c.metadata());
    HOLDS(c.metadata().empty() || !ferry::metadata_view{c.metadata()}.empty());
    for (int i = 0; i < c.child_count(); ++i) read_all(c.child(i));
    if (c.has_dictionary()) read_all(c.dictionary());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t count) {
    if (count == 0) {
        fuzz::refuses_null([] { static_cast<void>(ferry::from_arrow_schema(nullptr)); });
        return 0;
    }
    fuzz::bytes in{data, count};
    fuzz::pool memory;
    if (in.below(4) == 0) {
        auto const text = fuzz::take_text(in, memory, 60);  // not null-terminated
        static_cast<void>(ferry::parse_format(text));
        read(text);
        return 0;
    }
    ArrowSchema root{};
    schema_maker maker{in, memory};
    maker.make(root, 1);
    auto const before = root;
    try {
        auto const c = ferry::from_arrow_schema(&root);
        HOLDS(!maker.is_bad);
        read_all(c);
        fuzz::goes_round(c);
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::bad_column);
    }
    HOLDS(std::memcmp(&before, &root, sizeof root) == 0 && maker.released == 0);
    return 0;
}
