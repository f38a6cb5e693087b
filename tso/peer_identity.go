package tso

import (
	"context"

	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/gopercolator/percolator/internal/serve"
)

// peerOf names the peer that ctx's call comes from, for its share of what there is: by its identity
// if it has proven one, otherwise by its address. "": a caller in this process.
func peerOf(ctx context.Context) string {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return ""
	}
	if identity := identityOf(p.AuthInfo); identity != "" {
		return identity
	}
	return serve.Host(p.Addr)
}

// identityOf returns who the peer has proven to be, "" without a verified certificate or ALTS. It
// stays when a certificate is replaced by another for the same name.
func identityOf(info credentials.AuthInfo) string {
	switch info := info.(type) {
	case credentials.TLSInfo:
		if len(info.State.VerifiedChains) == 0 {
			return ""
		}
		cert := info.State.VerifiedChains[0][0]
		switch {
		case len(cert.URIs) > 0: // as of SPIFFE
			return "uri:" + cert.URIs[0].String()
		case len(cert.DNSNames) > 0:
			return "dns:" + cert.DNSNames[0]
		case len(cert.EmailAddresses) > 0:
			return "email:" + cert.EmailAddresses[0]
		case len(cert.IPAddresses) > 0:
			return "ip:" + cert.IPAddresses[0].String()
		}
		return "subject:" + string(cert.RawSubject)
	case interface{ PeerServiceAccount() string }: // ALTS
		if account := info.PeerServiceAccount(); account != "" {
			return "account:" + account
		}
	}
	return ""
}
