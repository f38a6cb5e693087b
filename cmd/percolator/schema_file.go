package main

import (
	"context"
	"io"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/schemafile"
)

// readSchema reads a schema file; "-" is in, unless that is nil.
func readSchema(ctx context.Context, path string, in io.Reader) (s *percolator.Schema, err error) {
	err = readInput(ctx, path, in, maxSchemaBytes, func(text []byte) (err error) {
		s, err = schemafile.Parse(text)
		return err
	})
	return s, err
}
