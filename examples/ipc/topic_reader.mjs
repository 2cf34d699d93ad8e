// Follows a topic of compact tensors in host memory without ferry. Copies each frame, so it needs no lock. The publisher must set
// `topic_options::text` to to_json.
//
// usage: node topic_reader.mjs NAME      prints the generation, shape and sum of each frame

import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { closeSync, openSync, readSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const ARRAYS = { // by DLPack type code and bits
    "0 8": Int8Array, "0 16": Int16Array, "0 32": Int32Array, "0 64": BigInt64Array, "1 8": Uint8Array, "1 16": Uint16Array,
    "1 32": Uint32Array, "1 64": BigUint64Array, "2 32": Float32Array, "2 64": Float64Array,
};
const controlPage = Math.max(Number(execFileSync("getconf", ["PAGESIZE"])), 16384);
const { XDG_RUNTIME_DIR: run } = process.env;
const directory = run ? `${run}/ferry` : `/dev/shm/ferry-${process.geteuid()}`;

/** Calls `use` with a function that reads bytes of a file. */
function withFile(path, use) {
    const file = openSync(path);
    const read = (begin, length) => { const bytes = Buffer.alloc(length); readSync(file, bytes, 0, length, begin); return bytes; };
    try { return use(read); } finally { closeSync(file); }
}

/** The newest frame of a topic, or `last` if there is none after it. */
const newest = (name, last) => withFile(`${directory}/${name.replaceAll("/", "!")}`, (read) => {
    const head = read(0, 32), [latest, stream] = [head.readBigUInt64LE(16), head.readBigUInt64LE(24)];
    assert.equal(head.toString("latin1", 0, 8), "FERRTPC1", "not the file of a topic");
    const [generation, slot, capacity] = [latest >> 8n, Number(latest & 255n), head.readUInt32LE(12)];
    if (slot >= head.readUInt32LE(8) || (stream === last.stream && generation === last.generation)) return last;
    const at = 64 + slot * capacity, record = read(at, capacity), isCurrent = () => read(at, 8).readBigUInt64LE() === generation;
    if (!isCurrent()) return last; // the slot is being written: there is a newer frame
    const { tensor, memories: [memory] } = JSON.parse(record.subarray(32 + record.readUInt32LE(16)).subarray(0, record.readUInt32LE(20)));
    const Values = ARRAYS[`${tensor.dtype.code} ${tensor.dtype.bits}`], shape = tensor.shape.map(Number);
    const size = (extents) => extents.reduce((a, b) => a * b, 1);
    const isCompact = !tensor.strides || tensor.strides.every((s, i) => shape[i] === 1 || Number(s) === size(shape.slice(i + 1)));
    assert(memory.kind === "host_shared" && Values && isCompact, "expected a compact tensor in host memory");
    const begin = controlPage + Number(memory.offset) + Number(tensor.byte_offset);
    const copy = withFile("/dev/shm" + memory.name, (data) => data(begin, size(shape) * Values.BYTES_PER_ELEMENT));
    return isCurrent() ? { stream, generation, shape, values: new Values(copy.buffer) } : last; // not written meanwhile
});

/** Yields each new frame: generation, shape and values. */
export async function* frames(name) {
    for (let last = {}, next; ; await setTimeout(1)) {
        try { next = newest(name, last); } catch (error) { if (error.code !== "ENOENT") throw error; } // no publisher, or other memory
        if (next && next !== last) yield (last = next);
    }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
    for await (const { generation, shape, values } of frames(process.argv[2])) console.log(generation, shape, values.reduce((a, b) => a + b));
