// Package client is the Go client, generated from the contract, openapi.yaml.
//
// A method that ends in WithResponse decodes the answer's body according to its status. It leaves
// headers where net/http puts them: read ETag, Location, Retry-After, Idempotent-Replayed and other
// headers with
//
//	answer.HTTPResponse.Header.Get("ETag")
//
// An operation X that takes a body has four methods. X and XWithBody, which takes a body of any
// type, return the answer as an *http.Response; XWithResponse and XWithBodyWithResponse decode it.
//
// The contract describes each operation in detail, including the headers of its answers.
package client
