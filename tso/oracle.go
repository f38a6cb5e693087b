package tso

import "context"

// Oracle hands out timestamps (section 2.3 of the paper).
//
// Use a [Client] in production. A [Server] in the same process is an Oracle as well.
type Oracle interface {
	// Next returns a timestamp that is greater than every timestamp that any caller in the system
	// received from a call that finished before this one started (docs/PROTOCOL.md, I1). No
	// timestamp is returned twice.
	//
	// Next fails at the latest when ctx ends; the error then satisfies errors.Is with ctx.Err(). It
	// is safe for concurrent use.
	Next(ctx context.Context) (Timestamp, error)
}
