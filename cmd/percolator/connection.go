package main

import (
	"context"
	"slices"

	"google.golang.org/api/option"
)

type connectionKey struct{}

// withConnection has the commands that run under ctx reach Bigtable by opts: a program that has an
// emulator inside runs them so.
func withConnection(ctx context.Context, opts ...option.ClientOption) context.Context {
	return context.WithValue(ctx, connectionKey{}, opts)
}

// bigtableOptions are the options for every client of Bigtable and of its administration that a
// command opens.
func bigtableOptions(ctx context.Context) []option.ClientOption {
	opts, _ := ctx.Value(connectionKey{}).([]option.ClientOption)
	return slices.Clone(opts)
}
