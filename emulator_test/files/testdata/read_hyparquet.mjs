// read_hyparquet.mjs FILE…: hyparquet reads exports.
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
const hex = b => Buffer.from(b).toString('hex')
const text = f => Number.isFinite(f) ? String(f) : f > 0 ? '+Inf' : '-Inf'
for (const path of process.argv.slice(2)) {
  const file = await asyncBufferFromFile(path)
  const parsers = { timestampFromNanoseconds: n => n / 1000n }
  for (const r of await parquetReadObjects({ file, compressors, utf8: false, parsers })) {
    const { row, int, float, bool, time, string, bytes, small, columns } = r
    const rest = Object.fromEntries(Object.entries(columns ?? {}).map(([k, v]) => [k, hex(v)]))
    console.log(JSON.stringify({
      row: Buffer.from(row).toString(), int: int?.toString(), float: float == null ? null : text(float), bool, time: time?.toString(), string,
      bytes: bytes && hex(bytes), small: Number(small), ...rest,
    }))
  }
}
