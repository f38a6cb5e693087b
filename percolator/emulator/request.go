package emulator

import (
	"path"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Request is a request that has arrived.
type Request struct {
	Method string // ReadRows, CheckAndMutateRow, CreateTable, …
	// Message is the protocol buffer, such as *bigtablepb.CheckAndMutateRowRequest. It must not be
	// modified.
	Message proto.Message
}

// OnRequest makes the emulator ask f about each request before anything is done with it: an error
// is its answer, with its status and details, and nothing of it is applied. f may run concurrently,
// and the request waits for it.
func OnRequest(f func(Request) error) Option {
	return func(s *settings) { s.judge = f }
}

// Overloaded is what Cloud Bigtable answers when it has too much to do: the code ResourceExhausted
// and, if after is more than 0, how long to wait before the next request (google.rpc.RetryInfo).
func Overloaded(after time.Duration) error {
	return AskToWait(status.Error(codes.ResourceExhausted, tooManyMutations), after)
}

// tooManyMutations is the message of public reports.
const tooManyMutations = "You have reached the limit of total mutations in your queue. Throttle your usage and wait for operations to finish."

// AskToWait adds to the status of err how long the client is to wait before its next request
// (google.rpc.RetryInfo), which the service does with codes such as Unavailable too. After of 0
// adds nothing.
func AskToWait(err error, after time.Duration) error {
	if after <= 0 {
		return err
	}
	with, failed := status.Convert(err).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if failed != nil { // of a status without an error
		return err
	}
	return with.Err()
}

// ask asks OnRequest's function about a request.
func (g *guard) ask(fullMethod string, req any) error {
	m, ok := req.(proto.Message)
	if g.judge == nil || !ok {
		return nil
	}
	return g.judge(Request{Method: path.Base(fullMethod), Message: m})
}
