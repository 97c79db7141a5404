//! `CMS.*` through the socket: replies in both protocols, and errors.

use super::WRONG_TYPE;
use crate::harness::TestServer;

#[test]
fn items_are_counted() {
    let server = TestServer::start();
    server.client().expect(&[
        ("CMS.INITBYDIM k 1000 5", "+OK"),
        ("CMS.INCRBY k a 5", "*1 :5"),
        ("CMS.INCRBY k a 5 b 3 a 0", "*3 :10 :3 :10"),
        ("CMS.QUERY k a b z", "*3 :10 :3 :0"),
        ("CMS.INFO k", "*6 +width :1000 +depth :5 +count :13"),
        ("CMS.INITBYPROB p 0.001 0.01", "+OK"),
        ("CMS.INFO p", "*6 +width :2000 +depth :7 +count :0"),
        ("TYPE k", "+CMSk-TYPE"),
        ("OBJECT ENCODING k", "$3 raw"),
        ("CMS.INCRBY p a 4294967290 b 4294967296", "*2 :4294967290 -CMS: INCRBY overflow"),
        ("CMS.INCRBY p a 3 a 9", "*2 :4294967293 -CMS: INCRBY overflow"),
        ("CMS.QUERY p a", "*1 :4294967295"),
    ]);
    server.client3().expect(&[("CMS.INFO k", "%3 +width :1000 +depth :5 +count :13")]);
}

#[test]
fn sketches_are_added_up_by_weights() {
    let server = TestServer::start();
    server.client().expect(&[
        ("CMS.INITBYDIM a 100 3", "+OK"),
        ("CMS.INITBYDIM b 100 3", "+OK"),
        ("CMS.INITBYDIM sum 100 3", "+OK"),
        ("CMS.INITBYDIM small 10 3", "+OK"),
        ("CMS.INCRBY a x 3 y 1", "*2 :3 :1"),
        ("CMS.INCRBY b x 4", "*1 :4"),
        ("CMS.INCRBY sum z 9", "*1 :9"),
        ("CMS.MERGE sum 2 a b", "+OK"),
        ("CMS.QUERY sum x y z", "*3 :7 :1 :0"),
        ("CMS.MERGE sum 3 a b sum WEIGHTS 2 -1 1", "+OK"),
        ("CMS.QUERY sum x y", "*2 :9 :3"),
        ("CMS.INFO sum", "*6 +width :100 +depth :3 +count :12"),
        ("CMS.MERGE sum 2 a b weights 1 -1", "-CMS: MERGE overflow"),
        ("CMS.MERGE sum 1 a WEIGHTS 9223372036854775807", "-CMS: MERGE overflow"),
        ("CMS.MERGE sum 2 a small", "-CMS: width/depth is not equal"),
        ("CMS.MERGE sum 2 a missing", "-CMS: key does not exist"),
        ("CMS.MERGE missing 2 a b", "-CMS: key does not exist"),
        ("CMS.MERGE sum x a", "-CMS: invalid numkeys"),
        ("CMS.MERGE sum 0 a", "-CMS: Number of keys must be positive"),
        ("CMS.MERGE sum 2 a", "-CMS: wrong number of keys"),
        ("CMS.MERGE sum 1 a b", "-CMS: wrong number of keys"),
        ("CMS.MERGE sum 2 a b WEIGHTS 1", "-CMS: wrong number of keys/weights"),
        ("CMS.MERGE sum 1 a b WEIGHTS 1", "-CMS: wrong number of keys/weights"),
        ("CMS.MERGE sum 1 a WEIGHTS x", "-CMS: invalid weight value"),
        ("CMS.QUERY sum x", "*1 :9"),
        ("COMMAND GETKEYS CMS.MERGE sum 2 a b WEIGHTS 1 2", "*3 $3 sum $1 a $1 b"),
    ]);
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let arity = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let no_memory = "-CMS: Insufficient memory to create the key";
    server.client().expect(&[
        ("SET s v", "+OK"),
        ("CMS.INITBYDIM k 10 10", "+OK"),
        ("CMS.INITBYDIM k 10 10", "-CMS: key already exists"),
        ("CMS.INITBYPROB s 0.1 0.1", "-CMS: key already exists"),
        ("CMS.INITBYDIM n 0 10", "-CMS: invalid width"),
        ("CMS.INITBYDIM n 10 x", "-CMS: invalid depth"),
        ("CMS.INITBYDIM n 100000000000000 100000000000000", "-CMS: invalid init arguments"),
        ("CMS.INITBYDIM n 1000000000 1000000000", no_memory),
        ("CMS.INITBYPROB n 0.0000000000000001 0.0000000000000001", no_memory),
        ("CMS.INITBYPROB n 0 0.1", "-CMS: invalid overestimation value"),
        ("CMS.INITBYPROB n 0.1 1", "-CMS: invalid prob value"),
        ("CMS.INITBYPROB n 0.1 0.9999999999", "-CMS: invalid init arguments"),
        ("CMS.INITBYDIM n 10", &arity("cms.initbydim")),
        ("CMS.INCRBY k a", &arity("cms.incrby")),
        ("CMS.INCRBY k a 1 b", &arity("cms.incrby")),
        ("CMS.INCRBY k a 1 b x", "-CMS: Cannot parse number"),
        ("CMS.INCRBY k a 1 b -1", "-CMS: Number cannot be negative"),
        ("CMS.INCRBY missing a 1", "-CMS: key does not exist"),
        ("CMS.INCRBY s a 1", WRONG_TYPE),
        ("CMS.QUERY k a b", "*2 :0 :0"),
        ("CMS.QUERY missing a", "-CMS: key does not exist"),
        ("CMS.QUERY s a", WRONG_TYPE),
        ("CMS.INFO missing", "-CMS: key does not exist"),
        ("CMS.INFO s", WRONG_TYPE),
        ("EXISTS n missing", ":0"),
    ]);
}
