package percolatortest

import "google.golang.org/grpc/status"

// Refuse is the action that never delivers the request: err is its answer, with its status and
// details. So Refuse([emulator.Overloaded](2 * time.Second)) is a service that has too much to do,
// and asks to wait.
//
// [emulator.Overloaded]: https://pkg.go.dev/github.com/gopercolator/percolator/percolator/emulator#Overloaded
func Refuse(err error) Action { return refusal{status.Convert(err).Err()} }

type refusal struct{ err error }

func (refusal) action() {}
