// hyparquet.mjs INPUT DIR: hyparquet-writer writes the rows of a Parquet file by each codec that node
// has, and in each encoding.
import { writeFileSync } from 'node:fs'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors as decompress } from 'hyparquet-compressors'
import { parquetWriteBuffer } from 'hyparquet-writer'

const [input, dir] = process.argv.slice(2)
const rows = await parquetReadObjects({ file: await asyncBufferFromFile(input), compressors: decompress, utf8: false })
const leaf = (name, type, repetition_type, converted_type) => ({ name, type, repetition_type, converted_type })
const schema = [
  { name: 'root', num_children: 9 },
  leaf('row', 'BYTE_ARRAY', 'REQUIRED', 'UTF8'),
  leaf('int', 'INT64', 'OPTIONAL'),
  leaf('float', 'DOUBLE', 'OPTIONAL'),
  leaf('bool', 'BOOLEAN', 'OPTIONAL'),
  leaf('time', 'INT64', 'OPTIONAL', 'TIMESTAMP_MILLIS'),
  leaf('string', 'BYTE_ARRAY', 'OPTIONAL', 'UTF8'),
  leaf('bytes', 'BYTE_ARRAY', 'OPTIONAL'),
  leaf('small', 'INT32', 'REQUIRED'),
  { name: 'columns', repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'MAP' },
  { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
  leaf('key', 'BYTE_ARRAY', 'REQUIRED', 'UTF8'),
  leaf('value', 'BYTE_ARRAY', 'OPTIONAL'),
]
const kinds = {
  row: 'text', int: 'number', float: 'float', bool: 'bool', time: 'number', string: 'text', bytes: 'text', small: 'number', columns: 'text',
}
const encodings = {
  plain: { text: 'PLAIN', number: 'PLAIN', float: 'PLAIN' },
  dictionary: { text: 'RLE_DICTIONARY', number: 'RLE_DICTIONARY', float: 'RLE_DICTIONARY' },
  delta: { text: 'DELTA_BYTE_ARRAY', number: 'DELTA_BINARY_PACKED', float: 'PLAIN' },
  'delta of lengths': { text: 'DELTA_LENGTH_BYTE_ARRAY', number: 'PLAIN', float: 'PLAIN' },
  'byte stream split': { text: 'PLAIN', number: 'BYTE_STREAM_SPLIT', float: 'BYTE_STREAM_SPLIT' },
}
const compressors = { GZIP: b => new Uint8Array(gzipSync(b)), BROTLI: b => new Uint8Array(brotliCompressSync(b)) }
for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI'])
  for (const [name, of] of Object.entries(encodings)) {
    const columnData = Object.entries(kinds).map(([column, kind]) =>
      ({ name: column, encoding: of[kind], data: rows.map(r => r[column] ?? undefined) }))
    const file = parquetWriteBuffer({ columnData, schema, codec, compressors, rowGroupSize: 250, pageSize: 1024 })
    writeFileSync(`${dir}/${codec} ${name}.parquet`, new Uint8Array(file))
  }
