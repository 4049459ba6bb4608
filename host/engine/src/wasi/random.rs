//! Pseudo-random numbers, the same for each call, so that an answer depends on nothing but the input.
//!
//! `SplitMix64` (Steele, Lea, Flood 2014) from `Config::seed`. Not secret, and not meant to be: a guest
//! has nothing to keep secret.

use wasmtime::bail;
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

/// Bytes that a guest may ask for at a time; no hash seed or nonce needs more.
const MAX_BYTES: u64 = 64 << 10;

/// The generator of one call.
#[derive(Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        if len > MAX_BYTES {
            bail!("asked for {len} random bytes at a time, the limit is {MAX_BYTES}");
        }
        let mut bytes = Vec::with_capacity(len as usize + 8);
        while (bytes.len() as u64) < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len as usize);
        Ok(bytes)
    }
}

impl random::Host for Random {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.next())
    }
}

impl insecure::Host for Random {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.next())
    }
}

impl insecure_seed::Host for Random {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.next(), self.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_splitmix64s_and_the_same_for_the_same_seed() {
        // The published first outputs for the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn requests_within_the_limit_are_served_and_beyond_it_refused() {
        let mut random = Random::new(0);
        assert_eq!(random.bytes(13).unwrap().len(), 13);
        assert_eq!(random.bytes(MAX_BYTES).unwrap().len(), 65_536);
        assert!(random.bytes(MAX_BYTES + 1).unwrap_err().to_string().contains("65537"));
        assert!(random.bytes(u64::MAX).is_err());
    }
}
