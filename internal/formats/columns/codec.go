package columns

import (
	"bytes"
	"errors"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// codec decompresses a page of a known size into dst, if that is large enough. What is allocated is
// at most the size, and follows what is there, not what is claimed, wherever the compression allows
// it. The library's own codecs know no bound.
type codec func(g *group, dst, src []byte, size int) ([]byte, error)

// codecs are the compressions that can be read.
var codecs = map[format.CompressionCodec]codec{
	format.Uncompressed: stored,
	format.Snappy:       unsnappy,
	format.Gzip:         gunzip,
	format.Brotli:       unbrotli,
	format.Zstd:         unzstd,
	format.Lz4Raw:       unlz4,
}

var errSize = errors.New("a page does not have the size of its header")

func stored(_ *group, dst, src []byte, size int) ([]byte, error) {
	if len(src) != size {
		return nil, errSize
	}
	dst = sized(dst, size)
	copy(dst, src)
	return dst, nil
}

func unsnappy(_ *group, dst, src []byte, size int) ([]byte, error) {
	const ratio = 64 // no more is made of a byte
	switch n, err := snappy.DecodedLen(src); {
	case err != nil:
		return nil, err
	case n != size || size > ratio*len(src):
		return nil, errSize
	}
	return snappy.Decode(sized(dst, size), src)
}

func unlz4(_ *group, dst, src []byte, size int) ([]byte, error) {
	const ratio = 256
	if size > ratio*len(src) {
		return nil, errSize
	}
	if size == 0 {
		return dst[:0], nil
	}
	dst = sized(dst, size)
	n, err := lz4.UncompressBlock(src, dst)
	if err == nil && n != size {
		err = errSize
	}
	return dst, err
}

func unzstd(g *group, dst, src []byte, size int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	if h.HasFCS && h.FrameContentSize > uint64(size) {
		return nil, errSize
	}
	if g.zstd == nil { // one without goroutines; a page needs no window beside itself
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		g.zstd = d
	}
	dst, err := g.zstd.DecodeAll(src, sized(dst, size)[:0])
	if err == nil && len(dst) != size {
		err = errSize
	}
	return dst, err
}

func gunzip(_ *group, dst, src []byte, size int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readSized(dst, r, size)
}

func unbrotli(_ *group, dst, src []byte, size int) ([]byte, error) {
	return readSized(dst, brotli.NewReader(bytes.NewReader(src)), size)
}

// readSized reads a stream that has a size to its end.
func readSized(dst []byte, r io.Reader, size int) ([]byte, error) {
	const step = 64 << 10
	for dst = dst[:0]; len(dst) < size; {
		if len(dst) == cap(dst) {
			dst = append(make([]byte, 0, min(size, max(step, 4*len(dst)))), dst...)
		}
		n, err := io.ReadFull(r, dst[len(dst):min(size, cap(dst))])
		if dst = dst[:len(dst)+n]; err != nil {
			return nil, err
		}
	}
	switch n, err := io.CopyN(io.Discard, r, 1); {
	case n > 0:
		return nil, errSize
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return dst, nil
}

// sized is a buffer of a size: the one that is there, if that is large enough.
func sized(b []byte, size int) []byte {
	if cap(b) < size {
		return make([]byte, size)
	}
	return b[:size]
}
