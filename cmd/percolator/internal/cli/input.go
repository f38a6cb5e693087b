package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadInput has parse read a file named on the command line: all of it, because what is cut off
// must not count. "-" is in, unless that is nil.
func ReadInput(ctx context.Context, path string, in io.Reader, most int64, parse func(text []byte) error) error {
	name := path
	if path == "-" && in != nil {
		name = "the standard input"
	} else {
		in = nil
	}
	text, err := await(ctx, func() ([]byte, error) { return readAtMost(path, in, most+1) })
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case int64(len(text)) > most:
		return Usagef("%s: more than %d bytes", name, most)
	}
	if err := parse(text); err != nil {
		return Usagef("%s: %w", name, err)
	}
	return nil
}

// readAtMost reads the file, or in if that is not nil.
func readAtMost(path string, in io.Reader, most int64) ([]byte, error) {
	if in == nil {
		f, err := os.Open(path)
		if err != nil {
			return nil, usageError{WithoutPath(err)}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, most))
}

// WithoutPath is an error of the operating system about a file that the caller names.
func WithoutPath(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// await returns what do returns, or ctx's error: a read of a terminal, or of a pipe to which no one
// writes, cannot be broken off and is left behind.
func await[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		of  T
		err error
	}
	done := make(chan result, 1)
	go func() {
		of, err := do()
		done <- result{of, err}
	}()
	select {
	case r := <-done:
		return r.of, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
