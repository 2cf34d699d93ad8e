// Follows a topic of compact tensors in host memory without ferry. Copies each frame, so it needs no lock. The publisher must set
// `topic_options::text`, such as to_json.
//
// usage: node topic_reader.mjs NAME      prints the generation, shape and sum of each frame

import assert from "node:assert";
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const ARRAYS = { // by DLPack type code and bits
    "0 8": Int8Array, "0 16": Int16Array, "0 32": Int32Array, "0 64": BigInt64Array, "1 8": Uint8Array, "1 16": Uint16Array,
    "1 32": Uint32Array, "1 64": BigUint64Array, "2 32": Float32Array, "2 64": Float64Array,
};
const auxv = new BigUint64Array(new Uint8Array(readFileSync("/proc/self/auxv")).buffer);
const pageSize = Number(auxv[auxv.findIndex((tag, i) => i % 2 === 0 && tag === 6n) + 1]); // AT_PAGESZ
const { XDG_RUNTIME_DIR: run } = process.env;
const directory = run ? `${run}/ferry` : `/dev/shm/ferry-${process.geteuid()}`;

/** Calls `use` with a function that reads bytes of a file, or zeros after its end. */
function withFile(path, use) {
    const file = openSync(path);
    const read = (begin, length) => { const bytes = Buffer.alloc(length); readSync(file, bytes, 0, length, begin); return bytes; };
    try { return use(read); } finally { closeSync(file); }
}

/** The newest frame of a topic, or `last` if there is none after it. */
const newest = (path, last) => withFile(path, (read) => {
    const head = read(0, 32), latest = head.readBigUInt64LE(16), stream = head.readBigUInt64LE(24);
    assert.equal(head.toString("latin1", 0, 8), "FERRTPC1", "not the file of a topic");
    const [generation, slot, capacity] = [latest >> 8n, Number(latest & 255n), head.readUInt32LE(12)];
    if (slot >= head.readUInt32LE(8) || (stream === last.stream && generation <= last.generation)) return last;
    const at = 64 + slot * capacity, record = read(at, capacity);
    const isCurrent = () => read(at, 8).readBigUInt64LE() === generation;
    if (!isCurrent()) return last; // the slot is being written: there is a newer frame
    const text = record.subarray(32 + record.readUInt32LE(16)).subarray(0, record.readUInt32LE(20));
    const { tensor: { dtype, strides, ...tensor }, memories: [memory] } = JSON.parse(text);
    const [Values, shape] = [ARRAYS[`${dtype.code} ${dtype.bits}`], tensor.shape.map(Number)];
    const size = (extents) => extents.reduce((a, b) => a * b, 1);
    const isCompact = !strides || strides.every((s, i) => shape[i] === 1 || Number(s) === size(shape.slice(i + 1)));
    assert(memory.kind === "host_shared" && Values && isCompact, "expected a compact tensor in host memory");
    const begin = Math.max(pageSize, 16384) + Number(memory.offset) + Number(tensor.byte_offset); // after the control page
    const copy = withFile("/dev/shm" + memory.name, (data) => data(begin, size(shape) * Values.BYTES_PER_ELEMENT));
    return isCurrent() ? { stream, generation, shape, values: new Values(copy.buffer) } : last; // not written meanwhile
});

/** Yields each new frame: generation, shape and values. */
export async function* frames(name) {
    for (let last = {}, next; ; await setTimeout(1)) {
        try { next = newest(`${directory}/${name.replaceAll("/", "!")}`, last); }
        catch (error) { if (error.code !== "ENOENT") throw error; } // no publisher yet, or it has replaced the memory
        if (next && next !== last) yield (last = next);
    }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
    for await (const { generation, shape, values } of frames(process.argv[2])) console.log(generation, shape, values.reduce((a, b) => a + b));
