package columns

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The functions below decompress a page of a known size into dst, if that is large enough. What is
// allocated is at most the size, and follows what is there, not what is claimed, wherever the
// compression allows it. The library's own codecs know no bound.

var errSize = errors.New("a page does not have the size of its header")

func stored(dst, src []byte, size int) ([]byte, error) {
	if len(src) != size {
		return nil, errSize
	}
	return append(dst[:0], src...), nil
}

func unsnappy(dst, src []byte, size int) ([]byte, error) {
	const ratio = 64 // no more is made of a byte
	switch n, err := snappy.DecodedLen(src); {
	case err != nil:
		return nil, err
	case n != size || size > ratio*len(src):
		return nil, errSize
	}
	return snappy.Decode(sized(dst, size), src)
}

func unlz4(dst, src []byte, size int) ([]byte, error) {
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

// inflaters decode Zstandard without goroutines of their own. A page needs no window beside itself.
var inflaters = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that contradict each other
	}
	return d
}}

func unzstd(dst, src []byte, size int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	if h.HasFCS && h.FrameContentSize > uint64(size) {
		return nil, errSize
	}
	d := inflaters.Get().(*zstd.Decoder)
	defer inflaters.Put(d)
	dst, err := d.DecodeAll(src, sized(dst, size)[:0])
	if err == nil && len(dst) != size {
		err = errSize
	}
	return dst, err
}

func gunzip(dst, src []byte, size int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readSized(dst, r, size)
}

func unbrotli(dst, src []byte, size int) ([]byte, error) {
	return readSized(dst, brotli.NewReader(bytes.NewReader(src)), size)
}

// readSized reads a stream that has a size to its end.
func readSized(dst []byte, r io.Reader, size int) ([]byte, error) {
	const step = 64 << 10
	if dst = dst[:0]; cap(dst) == 0 {
		dst = make([]byte, 0, min(size, step))
	}
	for len(dst) < size {
		if len(dst) == cap(dst) {
			dst = append(make([]byte, 0, min(size, 4*cap(dst))), dst...)
		}
		n, err := r.Read(dst[len(dst):min(size, cap(dst))])
		dst = dst[:len(dst)+n]
		if err != nil && len(dst) < size {
			return nil, unexpected(err)
		}
	}
	var more [1]byte
	for {
		n, err := r.Read(more[:])
		switch {
		case n > 0:
			return nil, errSize
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return nil, err
		}
	}
}

// sized is a buffer of a size: the one that is there, if that is large enough.
func sized(b []byte, size int) []byte {
	if cap(b) < size {
		return make([]byte, size)
	}
	return b[:size]
}
