package tso

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"

	"github.com/google/uuid"
	grpcpeer "google.golang.org/grpc/peer"
)

// Every reader of a lock learns the id of its session. So the id of a session whose owner has
// proven an identity is bound to it: 16 random bytes and a hash of them and of the identity. Any
// leader can check that, whichever it succeeds, and nothing else has to be stored.
const (
	randomIDBytes = 16
	ownerBytes    = 8
	boundIDChars  = (randomIDBytes + ownerBytes) / 3 * 4
)

// errNotOwner means that a session belongs to another identity.
var errNotOwner = errors.New("the session belongs to another identity")

// inProcess is the identity of callers in the server's process; no peer can have it.
const inProcess = "process"

// ownerOf returns the identity by which ctx's caller owns sessions, "" without one.
func ownerOf(ctx context.Context) string {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return inProcess
	}
	return identityOf(p.AuthInfo)
}

// newSessionID returns an id that no one can guess, because without an identity the id suffices to
// end the session. It is short, because every lock contains it (docs/PROTOCOL.md, Cells).
func newSessionID(owner string) string {
	random := uuid.New()
	id := random[:]
	if owner != "" {
		id = append(id, ownerHash(id, owner)...)
	}
	return base64.RawURLEncoding.EncodeToString(id)
}

// mayEnd reports whether owner may renew and end the session id. All may where none is bound
// to it: its owner has no identity, or opened it at a server of an earlier version.
func mayEnd(id, owner string) bool {
	if len(id) != boundIDChars {
		return true
	}
	b, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && subtle.ConstantTimeCompare(b[randomIDBytes:], ownerHash(b[:randomIDBytes], owner)) == 1
}

func ownerHash(random []byte, owner string) []byte {
	h := sha256.New()
	h.Write(random)
	h.Write([]byte(owner))
	return h.Sum(nil)[:ownerBytes]
}
