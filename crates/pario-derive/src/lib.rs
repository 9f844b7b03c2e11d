//! The derive macro `Record` of the crate `pario`, which has its documentation and exports it.
//!
//! A record is a struct whose fields pario moves as they lie in memory. The macro writes down where
//! they lie, and nothing else: what a field may be is decided by the trait `pario::Record`, which
//! every field's type must have.
//!
//! Hazard: the `unsafe impl` that is written here is sound for structs only. An enum or a union has
//! bytes that are not a valid value, or no value; both are refused.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataStruct, DeriveInput, Error, Field, Index, Member, Meta, Result, parse_quote};

/// Makes a `#[repr(C)]` struct of numbers, arrays and other records a record; see the trait.
#[proc_macro_derive(Record)]
pub fn record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implementation(input).unwrap_or_else(Error::into_compile_error).into()
}

fn implementation(input: DeriveInput) -> Result<TokenStream> {
    let fields = &fields_of(&input)?.fields;
    if !is_repr_c(&input)? {
        let text = "Record needs #[repr(C)]: Rust may lay other structs out anew in every build";
        return Err(Error::new(input.ident.span(), text));
    }
    let parts = fields.iter().enumerate().map(|(index, field)| part(index, field));
    let name = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::pario::Record));
    }
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote! {
        // SAFETY: the layout of the struct is that of its declaration, because of `repr(C)`. The
        // parts are its fields, at their places, each of a type that is a record itself. Padding
        // is in no part. Any bytes are a valid value of each field, and so of the struct.
        #[automatically_derived]
        unsafe impl #parameters ::pario::Record for #name #arguments #conditions {
            fn datatype() -> ::pario::Datatype {
                ::pario::access::of_fields::<Self>(&[#(#parts),*])
            }
        }
    })
}

fn fields_of(input: &DeriveInput) -> Result<&DataStruct> {
    match &input.data {
        Data::Struct(data) => Ok(data),
        Data::Enum(data) => {
            let text = "Record is for structs: some bytes are no value of an enum";
            Err(Error::new(data.enum_token.span(), text))
        }
        Data::Union(data) => {
            let text = "Record is for structs: the bytes of a union need not be initialised";
            Err(Error::new(data.union_token.span(), text))
        }
    }
}

/// Whether an attribute `repr` says `C`, with whatever else.
fn is_repr_c(input: &DeriveInput) -> Result<bool> {
    let mut found = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let words = attribute.parse_args_with(
            syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated,
        )?;
        found |= words.iter().any(|word| word.path().is_ident("C"));
    }
    Ok(found)
}

/// Where a field lies, and its type. An error about the type is shown at the field.
fn part(index: usize, field: &Field) -> TokenStream {
    let member = match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(index)),
    };
    let of = &field.ty;
    quote_spanned! { of.span() =>
        (::core::mem::offset_of!(Self, #member), <#of as ::pario::Record>::datatype())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(input: DeriveInput) -> String {
        implementation(input).map_or_else(|error| error.to_string(), |code| code.to_string())
    }

    #[test]
    fn only_structs_with_the_layout_of_c_are_records() {
        let rust = derived(parse_quote! { struct Cell { id: u64 } });
        assert!(rust.contains("needs #[repr(C)]"), "{rust}");
        let transparent = derived(parse_quote! { #[repr(transparent)] struct Cell(u64); });
        assert!(transparent.contains("needs #[repr(C)]"), "{transparent}");
        let choice = derived(parse_quote! { #[repr(C)] enum Side { Left, Right } });
        assert!(choice.contains("of an enum"), "{choice}");
        let union = derived(parse_quote! { #[repr(C)] union Word { bytes: u32, number: f32 } });
        assert!(union.contains("of a union"), "{union}");
    }

    #[test]
    fn every_field_is_a_part() {
        let named = derived(parse_quote! { #[repr(C)] struct Cell { id: u64, at: [f32; 3] } });
        for part in ["(Self , id) , < u64 as", "(Self , at) , < [f32 ; 3] as"] {
            assert!(named.contains(part), "{named}");
        }
        let pair = derived(parse_quote! { #[repr(C, align(16))] struct Pair<T>(T, u8); });
        for part in ["< T : :: pario :: Record >", "(Self , 0) , < T as", "(Self , 1) , < u8 as"] {
            assert!(pair.contains(part), "{pair}");
        }
    }
}
