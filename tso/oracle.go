package tso

import "context"

// Oracle hands out timestamps (section 2.3 of the paper).
//
// [Client] is the one for production; a [Server] that runs in the same process is one
// too.
type Oracle interface {
	// Next returns a timestamp that is greater than every timestamp returned by a
	// call, by anybody in the same system, that finished before this one started
	// (docs/PROTOCOL.md, I1). No timestamp is returned twice.
	//
	// Next returns an error at the latest when ctx ends; the error then satisfies
	// errors.Is with ctx.Err(). It may be called from many goroutines.
	Next(ctx context.Context) (Timestamp, error)
}
