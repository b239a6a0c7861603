// Package client is the Go client, generated from the contract, openapi.yaml.
//
// A method that ends in WithResponse returns the answer's body decoded, by its
// status. Headers it leaves where net/http puts them: read ETag, Location,
// Retry-After, Idempotent-Replayed and the others with
//
//	answer.HTTPResponse.Header.Get("ETag")
//
// There are four methods for an operation that takes a body. X and XWithBody, for a body of any
// type, return the answer as net/http has it; XWithResponse and XWithBodyWithResponse decode it.
//
// What an operation does beyond its summary, and which headers its answers have,
// is in the contract.
package client
